package driver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// portRest is how long a port is not given out again: somebody may still connect to it and mean the engine before.
const portRest = time.Minute

// ports gives out ports in order. It is safe for concurrent use.
type ports struct {
	first, last int // zeros: the system chooses

	mu   sync.Mutex
	next int
	used map[int]time.Time // zero: in use; else since when it no longer is
}

// newPorts begins somewhere in the range: the ports that the gateway before gave out last are not the first again.
func newPorts(between [2]int) *ports {
	p := &ports{first: between[0], last: between[1]}
	if p.first > 0 && p.last > p.first {
		p.next = p.first + rand.IntN(p.last-p.first+1)
	}
	return p
}

// take gives out a port that nobody listens on.
func (p *ports) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, since := range p.used {
		if !since.IsZero() && time.Since(since) >= portRest {
			delete(p.used, port)
		}
	}
	tries := p.last - p.first + 1
	if p.first == 0 {
		tries = 100
	}
	for range tries {
		port, err := p.free(p.candidate())
		if err != nil {
			continue
		}
		if _, ok := p.used[port]; !ok {
			p.mark(port, time.Time{})
			return port, nil
		}
	}
	if p.first == 0 {
		return 0, errors.New("find a free port: the system offers none")
	}
	return 0, fmt.Errorf("find a free port: all of port_range %d-%d are in use, or were within the last minute", p.first, p.last)
}

// candidate is the next port in order, 0 if the system is to choose.
func (p *ports) candidate() int {
	if p.next < p.first || p.next > p.last {
		p.next = p.first
	}
	port := p.next
	p.next++
	return port
}

// free looks whether somebody listens.
func (p *ports) free(port int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// hold marks a port that an engine has without having been given it here.
func (p *ports) hold(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark(port, time.Time{})
}

// giveBack marks a port that is no longer used.
func (p *ports) giveBack(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark(port, time.Now())
}

func (p *ports) mark(port int, t time.Time) {
	if p.used == nil {
		p.used = make(map[int]time.Time)
	}
	p.used[port] = t
}

// within says whether the port is one that could be given out.
func (p *ports) within(port int) bool { return p.first == 0 || p.first <= port && port <= p.last }
