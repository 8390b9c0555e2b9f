package driver

import (
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"myip.co.kr/hearth"
)

// impostor listens on an address and says that it is ready with any model. It counts what it is sent.
func impostor(t *testing.T, address string) (port int, asked *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"status":"ok","data":[{"id":"acme/tiny"}]}`))
	}))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return l.Addr().(*net.TCPAddr).Port, asked
}

func TestStrangerOnThePort(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"at the very address": "127.0.0.1:0", "at every address": ":0", "at every address of IPv4": "0.0.0.0:0"} {
		t.Run(name, func(t *testing.T) {
			port, asked := impostor(t, address)
			d := driversIn(t, t.TempDir())
			s := shell("echo up; exec sleep 1000") // it has not noticed yet that its port is taken
			s.Port = port
			e := startWith(t, d, s)
			eventually(t, "it is up", func() bool { return len(e.LogTail()) == 1 })
			for range 3 {
				r, err := e.Probe(t.Context())
				if r.Ready || err != nil || !strings.Contains(r.Why, "a process that the slot has not started") {
					t.Errorf("the probe says %+v, %v", r, err)
				}
			}
			if n := asked.Load(); n != 0 {
				t.Errorf("the stranger was sent %d requests", n)
			}
		})
	}
	t.Run("one that takes the port of a ready engine ends its being ready", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		s := engineSlot(t, "--load", "0s")
		e := startWith(t, d, s)
		ready(t, e)
		p := e.(*process)
		p.mu.Lock()
		port, asked := impostor(t, "127.0.0.1:0")
		p.now.Port = port // as if the engine had closed its socket, and the stranger had it now
		p.mu.Unlock()
		if r, err := e.Probe(t.Context()); r.Ready || err == nil || asked.Load() != 0 {
			t.Errorf("the probe says %+v, %v", r, err)
		}
		p.mu.Lock()
		p.now.Port = 1
		p.mu.Unlock()
		if r, err := e.Probe(t.Context()); r.Ready || err == nil || !strings.Contains(err.Error(), "does not listen") {
			t.Errorf("the probe says %+v, %v", r, err)
		}
	})
	t.Run("one that takes the port while the engine loads may be asked, but never gets a prompt", func(t *testing.T) {
		port, asked := impostor(t, "127.0.0.1:0")
		d := driversIn(t, t.TempDir())
		s := shell("exec sleep 1000")
		s.Port = port
		e := startWith(t, d, s)
		p := e.(*process)
		p.trust(p.now) // as if the port had been the engine's a moment ago
		if r, err := e.Probe(t.Context()); r.Ready || err != nil || !strings.Contains(r.Why, "has not started") || asked.Load() == 0 {
			t.Errorf("the probe says %+v, %v, after %d questions", r, err, asked.Load())
		}
	})
	t.Run("another slot's engine is a stranger too", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		other := engineSlot(t, "--load", "0s")
		other.Name, other.Node = "other", &hearth.Node{Name: "beside"}
		there := startWith(t, d, other)
		ready(t, there)
		s := shell("exec sleep 1000")
		s.Port = there.(*process).now.Port
		if r, err := startWith(t, d, s).Probe(t.Context()); r.Ready || err != nil || r.Why == "" {
			t.Errorf("the probe says %+v, %v", r, err)
		}
	})
	t.Run("nobody", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		if r, err := startWith(t, d, shell("exec sleep 1000")).Probe(t.Context()); r.Ready || err != nil || !strings.Contains(r.Why, "does not listen") {
			t.Errorf("the probe says %+v, %v", r, err)
		}
	})
}

// An engine's socket may be a descendant's.
func TestListeningDescendant(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]string{
		"a child":                         `"$@" & wait`,
		"a child in a session of its own": `setsid "$@" & wait`,
		"a child without the tag":         `env -i ` + engineMode + `=1 ` + raceOptions + `=` + endAtOnce + ` "$@" & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			d := driversIn(t, t.TempDir())
			s := engineSlot(t, "--load", "0s")
			s.Command = append([]string{"sh", "-c", wrap, "sh"}, s.Command...)
			e := startWith(t, d, s)
			ready(t, e)
			if status, body := chat(t, e); status != http.StatusOK {
				t.Errorf("it answers %d %s", status, body)
			}
		})
	}
}

func TestWhose(t *testing.T) {
	files := map[int][]string{1: {"a", "b"}, 2: {"c"}}
	see := func(sockets []string, pid int) ([]string, error) {
		switch pid {
		case 8:
			return sockets, fs.ErrPermission
		case 9:
			return sockets, fs.ErrNotExist
		}
		return slices.DeleteFunc(sockets, func(s string) bool { return slices.Contains(files[pid], s) }), nil
	}
	for name, c := range map[string]struct {
		sockets []string
		of      []int
		want    owner
	}{
		"no socket":                         {nil, []int{1, 8}, nobody},
		"all are theirs":                    {[]string{"a", "c"}, []int{1, 2}, ours},
		"one is not":                        {[]string{"a", "x"}, []int{1, 2}, stranger},
		"one cannot be seen to be":          {[]string{"a", "x"}, []int{1, 8}, unknown},
		"all are, whatever cannot be seen":  {[]string{"a"}, []int{8, 1}, ours},
		"one has ended meanwhile":           {[]string{"x"}, []int{9, 1}, stranger},
		"nobody is there who could have it": {[]string{"x"}, nil, stranger},
	} {
		t.Run(name, func(t *testing.T) {
			var of []proc
			for _, pid := range c.of {
				of = append(of, proc{pid: pid})
			}
			if got, left := whose(slices.Clone(c.sockets), of, see); got != c.want || (got == stranger || got == unknown) != (len(left) > 0) {
				t.Errorf("whose says %d, left %q", got, left)
			}
		})
	}
}

// Where it cannot be seen who listens, an engine must show that it knows this start's key from others.
func TestDoubt(t *testing.T) {
	d := driversIn(t, t.TempDir())
	secret := engineSlot(t, "--load", "0s", "--api-key", "${api_key}")
	secret.Name, secret.Node = "secret", &hearth.Node{Name: "beside"}
	open := engineSlot(t, "--load", "0s")
	engines := map[string]*process{
		"with a key": startWith(t, d, secret).(*process), "without": startWith(t, d, open).(*process),
	}
	for _, e := range engines {
		ready(t, e)
	}
	for name, c := range map[string]struct {
		engine string
		owner  owner
		key    string
		want   string
	}{
		"ours":                       {"without", ours, "", ""},
		"nobody":                     {"without", nobody, "k", "does not listen"},
		"a stranger, key or not":     {"with a key", stranger, "k", "has not started"},
		"unknown, no key":            {"without", unknown, "", "${api_key}"},
		"unknown, who takes any key": {"without", unknown, "k", "takes any API key"},
		"unknown, who knows the key": {"with a key", unknown, "k", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := engines[c.engine]
			r := p.now
			r.Key = c.key
			if got := p.doubt(t.Context(), c.owner, r); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("doubt %q", got)
			}
		})
	}
}

// A port that somebody took before the engine could is changed, whatever the engine says of it.
func TestPortTakenMeanwhile(t *testing.T) {
	first := row(t, 3)
	d := driversIn(t, t.TempDir())
	d.ports.first, d.ports.last = first, first+2
	s := engineSlot(t)
	engine := strings.Join(s.Command, " ")
	dir := t.TempDir()
	// Its first start waits until the stranger is there, and ends without a word.
	s.Command = []string{"sh", "-c", `if [ ! -e ` + dir + `/go ]; then
		echo up; while [ ! -e ` + dir + `/go ]; do sleep 0.01; done; exit 1; fi; exec ` + engine + ` --load 0s`}
	e := startWith(t, d, s)
	eventually(t, "it is up", func() bool { return len(e.LogTail()) == 1 })
	l, err := net.Listen("tcp", addr(first))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	touch(t, dir+"/go")
	ready(t, e)
	if want := "http://" + addr(first+1); e.URL() != want {
		t.Errorf("URL %s, want %s", e.URL(), want)
	}
	if since := d.ports.used[first]; since.IsZero() {
		t.Error("the port that was taken is still held")
	}
}

// BenchmarkOwner is what a probe takes to know that the engine's port is the engine's.
func BenchmarkOwner(b *testing.B) {
	d, err := New(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			c.Close()
		}
	}()
	me, err := look(syscall.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	p := d.process(shell(""))
	r := record{PID: me.pid, Start: me.start, Port: l.Addr().(*net.TCPAddr).Port}
	b.ReportAllocs()
	for b.Loop() {
		if p.owner(r) != ours {
			b.Fatal("it is not ours")
		}
	}
}

// BenchmarkScan is what one look at all processes takes while an engine is being stopped.
func BenchmarkScan(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := scan(); err != nil {
			b.Fatal(err)
		}
	}
}
