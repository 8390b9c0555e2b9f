package market

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// phase is for how long a slot was in a state.
type phase struct {
	model    int
	state    hearth.SlotState
	from, to time.Duration
}

// recorder is hearth's policy, and a record of its slots' states.
type recorder struct {
	*scheduler
	phases  []phase
	current []int // by model: place in phases, -1 = asleep
}

func newRecorder(w *world) *recorder {
	r := &recorder{scheduler: newScheduler(w, slot.VotesCount)}
	for range w.Models {
		r.current = append(r.current, -1)
	}
	return r
}

func (r *recorder) ask(id int)              { r.scheduler.ask(id); r.note() }
func (r *recorder) release(id int)          { r.scheduler.release(id); r.note() }
func (r *recorder) ready(m int, run uint64) { r.scheduler.ready(m, run); r.note() }
func (r *recorder) ended(m int, run uint64) { r.scheduler.ended(m, run); r.note() }
func (r *recorder) tick()                   { r.scheduler.tick(); r.note() }

func (r *recorder) note() {
	for m, c := range r.current {
		s := r.core.View(r.time(), m).State
		if c >= 0 && r.phases[c].state == s {
			continue
		}
		if c >= 0 {
			r.phases[c].to = r.now
			r.current[m] = -1
		}
		if s != hearth.SlotAsleep {
			r.current[m] = len(r.phases)
			r.phases = append(r.phases, phase{m, s, r.now, never})
		}
	}
}

// turnChange is the traffic of the picture: one model is in use and goes on being asked for, and another is asked for.
func turnChange() *trace {
	s := DefaultSlotScenario()
	s.Models = []SlotModel{
		{Share: 0.5, LoadTime: 8 * time.Second, Service: 5 * time.Second, Concurrency: 2},
		{Share: 0.5, LoadTime: 8 * time.Second, Service: 5 * time.Second, Concurrency: 2},
	}
	s.Name, s.Load, s.Budgets = "picture", 0.6, []time.Duration{time.Minute}
	t := &trace{SlotScenario: &s, steady: true}
	for _, a := range []struct {
		at, takes float64
		model     int
	}{
		{0, 6, 0}, {2, 8, 0}, {12, 5, 0}, {15, 6, 0}, {16, 4, 1}, {18, 6, 0}, {19.5, 5, 0}, {21, 5, 1}, {23, 4, 0}, {25, 9, 0}, {27, 6, 0}, {29, 4, 0}, {31, 3, 0}, {33, 4, 0},
		{34, 5, 1}, {36, 6, 0}, {39, 5, 1}, {45, 4, 0}, {47, 5, 1}, {52, 4, 1}, {57, 3, 1},
	} {
		t.requests = append(t.requests, asked{at: seconds(a.at), model: a.model, service: seconds(a.takes), budget: time.Minute})
	}
	return t
}

// Measures of the picture, in pixels.
const (
	pictureLeft   = 90
	pictureSecond = 10 // width of a second
	pictureRow    = 12
)

// TurnPicture draws a turn change of the scheduler as SVG: the state of two slots, and each request from when it came until
// its answer was complete.
func TurnPicture(to io.Writer) error {
	world := newWorld(turnChange())
	r := newRecorder(world)
	world.play(r)
	if len(world.faults) > 0 {
		return fmt.Errorf("draw a turn change: %s", world.faults[0])
	}
	end := 0.0
	for i, o := range world.outcomes {
		end = max(end, (o.at + world.requests[i].service).Seconds())
	}
	w := bufio.NewWriter(to)
	height := 100 + pictureRow*len(world.requests) + 24
	svgHead(w, pictureLeft+int(end*pictureSecond)+30, height, "A turn change on an exclusive GPU")
	for s := 0; float64(s) <= end; s += 10 {
		x := pictureLeft + s*pictureSecond
		fmt.Fprintf(w, "<line x1=\"%d\" x2=\"%d\" y1=\"24\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"18\" text-anchor=\"middle\" fill=\"#555\">%d s</text>\n", x, x, height-20, x, s)
	}
	for m, name := range []string{"model A", "model B"} {
		fmt.Fprintf(w, "<text x=\"8\" y=\"%d\" font-weight=\"bold\" fill=\"%s\">%s</text>\n", 44+28*m, modelColours[m], name)
	}
	for _, p := range r.phases {
		drawPhase(w, p, end)
	}
	for i := range world.requests {
		drawRequest(w, i, &world.requests[i], world.outcomes[i])
	}
	fmt.Fprintf(w, "<text x=\"8\" y=\"%d\" fill=\"#555\">one line per request: thin while it waits, thick while the engine works on it; orange is draining, grey stopping</text>\n</svg>\n", height-6)
	return w.Flush()
}

var modelColours = []string{"#c2410c", "#1d4ed8"}

var phaseColours = map[hearth.SlotState]string{
	hearth.SlotStarting: "#fde68a", hearth.SlotReady: "#bbf7d0", hearth.SlotDraining: "#fed7aa", hearth.SlotStopping: "#e5e7eb",
}

func drawPhase(w io.Writer, p phase, end float64) {
	to := min(end, p.to.Seconds())
	x, width := pictureLeft+p.from.Seconds()*pictureSecond, (to-p.from.Seconds())*pictureSecond
	fmt.Fprintf(w, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"22\" fill=\"%s\" stroke=\"#999\"/>\n", x, 29+28*p.model, width, phaseColours[p.state])
	if width > 48 {
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\" font-size=\"11\">%s</text>\n", x+3, 44+28*p.model, p.state)
	}
}

func drawRequest(w io.Writer, i int, r *asked, o outcome) {
	y, colour := 100+pictureRow*i, modelColours[r.model]
	came, began := pictureLeft+r.at.Seconds()*pictureSecond, pictureLeft+o.at.Seconds()*pictureSecond
	fmt.Fprintf(w, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"%s\"/><circle cx=\"%.1f\" cy=\"%d\" r=\"2\" fill=\"%s\"/>\n", came, began, y, y, colour, came, y, colour)
	if o.granted {
		fmt.Fprintf(w, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"6\"/>\n", began, began+r.service.Seconds()*pictureSecond, y, y, colour)
	}
}
