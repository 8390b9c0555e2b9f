package driver

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// row finds ports that are free now and follow each other.
func row(t *testing.T, n int) (first int) {
	t.Helper()
	free := func(port int) bool {
		_, err := new(ports).free(port)
		return err == nil
	}
	for first = 21000; first < 30000; first += n {
		ok := true
		for i := range n {
			ok = ok && free(first+i)
		}
		if ok {
			return first
		}
	}
	t.Fatal("there is no row of free ports")
	return 0
}

func TestPorts(t *testing.T) {
	take := func(t *testing.T, p *ports) int {
		t.Helper()
		port, err := p.take()
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Run("in order, and not again within a minute", func(t *testing.T) {
		first := row(t, 3)
		synctest.Test(t, func(t *testing.T) {
			p := &ports{first: first, last: first + 2}
			for i := range 3 {
				if got := take(t, p); got != first+i {
					t.Errorf("port %d, want %d", got, first+i)
				}
			}
			p.giveBack(first + 1)
			<-time.After(portRest - time.Nanosecond)
			if got, err := p.take(); err == nil || !strings.Contains(err.Error(), "port_range") {
				t.Errorf("port %d, %v", got, err)
			}
			<-time.After(time.Nanosecond)
			if got := take(t, p); got != first+1 {
				t.Errorf("port %d, want %d", got, first+1)
			}
			p.giveBack(first)
			p.giveBack(first + 2)
			<-time.After(portRest)
			if got := take(t, p); got != first+2 { // on from where it stood, not from the beginning
				t.Errorf("port %d, want %d", got, first+2)
			}
			if got := take(t, p); got != first {
				t.Errorf("port %d, want %d", got, first)
			}
		})
	})
	t.Run("one that is listened on, or that an adopted engine has, is passed over", func(t *testing.T) {
		first := row(t, 3)
		l, err := net.Listen("tcp", addr(first))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := &ports{first: first, last: first + 2}
		p.hold(first + 1)
		if got := take(t, p); got != first+2 {
			t.Errorf("port %d, want %d", got, first+2)
		}
	})
	t.Run("any free port", func(t *testing.T) {
		p := new(ports)
		seen := make(map[int]bool)
		for range 20 {
			port := take(t, p)
			if port == 0 || seen[port] {
				t.Errorf("port %d", port)
			}
			seen[port] = true
		}
	})
	t.Run("two gateways do not begin with the same port", func(t *testing.T) {
		begin := make(map[int]bool)
		for range 50 {
			p := newPorts([2]int{18100, 18899})
			if !p.within(p.next) {
				t.Errorf("it begins with %d", p.next)
			}
			begin[p.next] = true
		}
		if len(begin) < 10 {
			t.Errorf("they begin with %v", begin)
		}
	})
	t.Run("within", func(t *testing.T) {
		p := &ports{first: 10, last: 12}
		if p.within(9) || !p.within(10) || !p.within(12) || p.within(13) || !new(ports).within(1) {
			t.Error("a range holds what it holds")
		}
	})
}
