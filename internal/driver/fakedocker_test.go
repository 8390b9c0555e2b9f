package driver

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
)

// fakeDocker is a Docker daemon with one container, whose process is an engine on a real socket. It speaks the part of
// the Engine API that is used, on a unix socket.
type fakeDocker struct {
	t      *testing.T
	socket string
	port   int
	conf   engine.Config

	mu       sync.Mutex
	name     string // "" = there is no such container
	status   string
	code     int
	oom      bool
	health   string
	tty      bool
	stubborn bool          // SIGTERM does not end it
	broken   string        // starting fails with this
	ended    chan struct{} // closed when the container is not running
	kill     context.CancelFunc
	calls    []string
}

func startDocker(t *testing.T, conf engine.Config) *fakeDocker {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	d := &fakeDocker{t: t, socket: filepath.Join(dir, "docker.sock"), port: free.Addr().(*net.TCPAddr).Port, conf: conf, name: "gemma", status: "created"}
	ln, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /containers/{id}/start", d.start)
	mux.HandleFunc("POST /containers/{id}/stop", d.stop)
	mux.HandleFunc("POST /containers/{id}/kill", d.killed)
	mux.HandleFunc("POST /containers/{id}/wait", d.wait)
	mux.HandleFunc("GET /containers/{id}/json", d.inspect)
	mux.HandleFunc("GET /containers/{id}/logs", d.logs)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		known := d.name != ""
		d.calls = append(d.calls, r.Method+" "+r.URL.RequestURI())
		d.mu.Unlock()
		if !known {
			w.WriteHeader(http.StatusNotFound)
			answer(w, map[string]string{"message": "No such container: gemma"})
			return
		}
		mux.ServeHTTP(w, r)
	}))
	srv.Listener = ln
	srv.Start()
	t.Cleanup(func() {
		d.end(137, false)
		srv.Close()
	})
	return d
}

func (d *fakeDocker) slot() *hearth.Slot {
	return &hearth.Slot{Name: "s", Driver: Docker, Container: "gemma", Docker: "unix://" + d.socket, URL: "http://" + addr(d.port),
		Node: &hearth.Node{Name: "n", Exclusive: true}, Model: &hearth.Model{ID: "acme/tiny"}}
}

func (d *fakeDocker) is() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

func (d *fakeDocker) start(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != "" {
		w.WriteHeader(http.StatusInternalServerError)
		answer(w, map[string]string{"message": d.broken})
		return
	}
	if d.status == "running" {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	ln, err := net.Listen("tcp", addr(d.port))
	if err != nil {
		d.t.Error(err)
		return
	}
	ctx, kill := context.WithCancel(context.Background())
	d.status, d.ended, d.kill = "running", make(chan struct{}), kill
	srv := &http.Server{Handler: engine.New(d.conf), ReadHeaderTimeout: time.Minute}
	ended := d.ended
	go func() {
		go srv.Serve(ln) // it ends with the container
		<-ctx.Done()
		srv.Close()
		close(ended)
	}()
	w.WriteHeader(http.StatusNoContent)
}

// end ends the container's process.
func (d *fakeDocker) end(code int, oom bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.status != "running" {
		return
	}
	d.status, d.code, d.oom = "exited", code, oom
	d.kill()
	<-d.ended
}

func (d *fakeDocker) stop(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.URL.Query().Get("t"))
	if err != nil {
		d.t.Errorf("stop without t: %v", err)
	}
	d.mu.Lock()
	was, stubborn := d.status, d.stubborn
	d.mu.Unlock()
	if was != "running" {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	code := 143
	if stubborn {
		code = 137
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-r.Context().Done():
			return
		}
	}
	d.end(code, false)
	w.WriteHeader(http.StatusNoContent)
}

func (d *fakeDocker) killed(w http.ResponseWriter, _ *http.Request) {
	if d.is() != "running" {
		w.WriteHeader(http.StatusConflict)
		answer(w, map[string]string{"message": "container is not running"})
		return
	}
	d.end(137, false)
	w.WriteHeader(http.StatusNoContent)
}

func (d *fakeDocker) wait(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	ended := d.ended
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	select {
	case <-ended:
		d.mu.Lock()
		defer d.mu.Unlock()
		answer(w, map[string]int{"StatusCode": d.code})
	case <-r.Context().Done():
	}
}

func (d *fakeDocker) inspect(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := map[string]any{"Status": d.status, "Running": d.status == "running", "ExitCode": d.code, "OOMKilled": d.oom, "Error": ""}
	if d.health != "" {
		state["Health"] = map[string]string{"Status": d.health}
	}
	answer(w, map[string]any{"Id": "abc", "State": state, "Config": map[string]bool{"Tty": d.tty}})
}

func (d *fakeDocker) logs(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); q.Get("stdout") != "1" || q.Get("stderr") != "1" || q.Get("tail") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if d.tty {
		fmt.Fprint(w, "loading\r\nready\r\n")
		return
	}
	w.Header().Set("Content-Type", "application/vnd.docker.multiplexed-stream")
	for i, part := range []string{"load", "ing\nre", "ady\n"} {
		head := []byte{byte(1 + i%2), 0, 0, 0, 0, 0, 0, 0}
		binary.BigEndian.PutUint32(head[4:], uint32(len(part)))
		_, _ = w.Write(append(head, part...))
	}
}
