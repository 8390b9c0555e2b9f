package node

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/sse"
)

const (
	viewPace  = 500 * time.Millisecond // between two pictures at most
	viewLook  = 100 * time.Millisecond // between two looks whether there is something new
	viewsLast = 5 * time.Minute        // of one stream: clocks drift, and a new stream compares them anew
	maxSteps  = 64                     // in one picture
)

// views sends pictures of all slots until the gateway leaves.
func (s *Server) views(w http.ResponseWriter, r *http.Request) {
	events := s.o.Fleet.Watch(r.Context())
	v := &viewing{s: s, w: w, rc: http.NewResponseController(w), began: time.Now()}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	look := time.NewTicker(viewLook)
	defer look.Stop()
	for {
		if !v.send() || v.last.Last {
			return
		}
		for news := false; !news; {
			select {
			case <-r.Context().Done():
				return
			case <-s.cutAll.Done():
				return
			case e, ok := <-events:
				if !ok { // the fleet is closed: what this machine is doing is nothing now
					panic(http.ErrAbortHandler)
				}
				v.note(&e)
				for more := true; more; { // what comes together is told together
					select {
					case e, ok := <-events:
						if more = ok; ok {
							v.note(&e)
						}
					default:
						more = false
					}
				}
				news = true
			case now := <-look.C:
				news = now.Sub(v.sent) >= viewPace || v.changed()
			}
		}
	}
}

// viewing is one stream of pictures.
type viewing struct {
	s     *Server
	w     http.ResponseWriter
	rc    *http.ResponseController
	began time.Time
	sent  time.Time
	last  picture
	steps []slot.Event
	buf   []byte
}

func (v *viewing) note(e *slot.Event) {
	v.steps = append(v.steps, *e)
	v.steps = v.steps[max(0, len(v.steps)-maxSteps):]
}

// look is what the slots do now.
func (v *viewing) look(now time.Time) []seen {
	var list []seen
	for _, at := range v.s.catalog.Load().Slots {
		if at.Node.Remote == nil {
			view := v.s.o.Fleet.View(at)
			list = append(list, see(at, &view, now))
		}
	}
	return list
}

// changed says whether the slots do something else than what was sent last.
func (v *viewing) changed() bool {
	if v.last.Leaving != v.s.leaving.Load() {
		return true
	}
	return !slices.EqualFunc(v.last.Slots, v.look(time.Now()), func(a, b seen) bool {
		a.Since, a.LoadRest, a.WaitRest, a.Soonest = b.Since, b.LoadRest, b.WaitRest, b.Soonest // they pass by themselves
		if a.Turn > 0 && b.Turn > 0 {
			a.Turn = b.Turn
		}
		if a.Paused > 0 && b.Paused > 0 {
			a.Paused = b.Paused
		}
		if a.Shut > 0 && b.Shut > 0 {
			a.Shut = b.Shut
		}
		return a == b
	})
}

// send sends a picture. It is false if the gateway cannot be told.
func (v *viewing) send() bool {
	now := time.Now()
	v.sent = now
	v.last = picture{
		Number: v.last.Number + 1, At: now.Sub(v.began).Milliseconds(), Leaving: v.s.leaving.Load(),
		Last: now.Sub(v.began) >= viewsLast, Slots: v.look(now),
	}
	for i := range v.steps {
		v.last.Steps = append(v.last.Steps, step(&v.steps[i], now))
	}
	v.steps = v.steps[:0]
	b, err := json.Marshal(&v.last)
	if err != nil {
		v.s.o.Log.Error("the views cannot be told", "error", err)
		return false
	}
	v.buf = sse.AppendData(v.buf[:0], b)
	_ = v.rc.SetWriteDeadline(now.Add(v.s.o.Stall))
	if _, err := v.w.Write(v.buf); err != nil {
		return false
	}
	return v.rc.Flush() == nil
}
