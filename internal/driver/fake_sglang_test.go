package driver

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"myip.co.kr/hearth"
)

// fakeSeed is that of the first run of an SGLang.
const fakeSeed = 17

// serveSGLang serves the orders of an SGLang, each of which ends the real one if it comes at the wrong moment.
func (f *fake) serveSGLang(mux *http.ServeMux) {
	f.seed = fakeSeed
	info := func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.old && r.URL.Path == "/server_info" {
			http.NotFound(w, r)
			return
		}
		if f.info != "" {
			_, _ = fmt.Fprint(w, f.info)
			return
		}
		answer(w, map[string]any{"random_seed": f.seed, "enable_memory_saver": true, "enable_weights_cpu_backup": true, "version": "0.5.9"})
	}
	mux.HandleFunc("GET /server_info", info)
	mux.HandleFunc("GET /get_server_info", info)
	mux.HandleFunc("POST /flush_cache", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.busy > 0 {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	mux.HandleFunc("POST /abort_request", func(http.ResponseWriter, *http.Request) { f.set(func() { f.busy = 0 }) })
	mux.HandleFunc("POST /resume_memory_occupation", func(w http.ResponseWriter, _ *http.Request) {
		if f.is() != "unloaded" {
			f.injure("it was told to take the memory that it has")
		}
		if !f.loads(nil) {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]any{"object": "error", "message": "out of memory", "type": "BadRequestError", "code": 400})
		}
	})
	mux.HandleFunc("POST /release_memory_occupation", func(http.ResponseWriter, *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.state != "loaded" || f.busy > 0 {
			f.injuries = append(f.injuries, "it was told to give its memory back while it is "+f.state+fmt.Sprintf(" and works on %d requests", f.busy))
		}
		f.state = "unloaded"
	})
}

// lull writes down that the server of a slot is asleep, as an earlier gateway of d's directory would have.
func lull(t *testing.T, d *Drivers, s *hearth.Slot) {
	t.Helper()
	if err := replaceFile(releaserOf(t, d, s).file, []byte(strconv.Itoa(fakeSeed))); err != nil {
		t.Fatal(err)
	}
}

// releaserOf are the orders that d makes for a slot with an SGLang.
func releaserOf(t *testing.T, d *Drivers, s *hearth.Slot) *releaser {
	t.Helper()
	o, err := d.http(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	return o.(*releaser)
}
