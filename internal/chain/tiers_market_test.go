package chain

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// town is an own server of ten places with a queue, and one provider with room for everybody, in virtual time. Every
// request goes through Build with a view of the slot as it is.
type town struct {
	t     *testing.T
	r     *rand.Rand
	in    Input
	slot  *hearth.Slot
	now   float64
	due   dues
	busy  int
	queue []*waiter

	served, local, late int
	wait                float64 // seconds to first tokens, in all
}

type waiter struct {
	came float64
	gone bool
}

// due is something that happens.
type due struct {
	at float64
	do func()
}

type dues []due

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

const (
	townPlaces  = 10
	townService = 6.0  // seconds, mean
	townPatient = 10.0 // seconds that a request waits for a place if there is another candidate
	townOwn     = 0.3  // seconds to the first token of a slot's engine
	townOther   = 1.2  // and of the provider
)

func newTown(t *testing.T, mode hearth.TierMode, seed uint64) *town {
	s := newScene()
	c := s.Views.Catalog
	c.Models[0].TierMode, c.Models[0].SpillAfter = mode, 3*time.Second
	c.Slots[0].Concurrency, c.Slots[0].Queue = townPlaces, 64
	without(betaGemma)(s)
	s.measured(localGemma, townOwn, 40)
	// An answer of 240 tokens costs one elsewhere, and the wait for it 0.85 of that at the 12 s which are usual.
	w := Waiting{First: 4 * 0.85 / 12, Rest: 0.85 / 12, Out: 240, PerToken: 0.025}
	s.Outlook = Outlook{
		Of: func(*hearth.Endpoint) (Forecast, bool) {
			return Forecast{Cost: 1 + w.First*townOther + w.Rest*w.Out*w.PerToken, First: townOther, Free: true}, true
		},
		Waiting: func(*hearth.Model) (Waiting, bool) { return w, true },
	}
	s.at(localGemma).List = hearth.Price{}
	req := ask(gemma)
	return &town{t: t, r: rand.New(rand.NewPCG(seed, 7)), in: s.input(t, &req), slot: c.Slots[0]}
}

func (w *town) after(secs float64, do func()) { heap.Push(&w.due, due{w.now + secs, do}) }

// run lets so many requests a second arrive for an hour.
func (w *town) run(rate float64) {
	var arrive func()
	arrive = func() {
		w.arrive()
		w.after(w.r.ExpFloat64()/rate, arrive)
	}
	w.after(0, arrive)
	for w.now < 3600 {
		next := heap.Pop(&w.due).(due)
		w.now = next.at
		next.do()
	}
}

func (w *town) view() hearth.SlotView {
	waiting := 0
	for _, q := range w.queue {
		if !q.gone {
			waiting++
		}
	}
	v := hearth.SlotView{State: hearth.SlotReady, Inflight: w.busy, Waiting: waiting}
	if before := waiting + 1 - (townPlaces - w.busy); before > 0 { // as a slot predicts it
		v.WaitRest = time.Duration(float64(before) * townService / townPlaces * 1e9)
	}
	return v
}

func (w *town) arrive() {
	w.in.Views.Slots[w.slot.Index] = w.view()
	c, err := Build(w.in)
	if err != nil {
		w.t.Fatal(err)
	}
	if !c.Candidates[0].Endpoint.Local() {
		w.first(townOther, false)
		return
	}
	q := &waiter{came: w.now}
	if w.busy < townPlaces {
		w.serve(q)
		return
	}
	w.queue = append(w.queue, q)
	w.after(townPatient, func() {
		if !q.gone {
			q.gone = true
			w.late++
			w.first(townPatient+townOther, false)
		}
	})
}

func (w *town) serve(q *waiter) {
	q.gone = true
	w.busy++
	w.first(w.now-q.came+townOwn, true)
	const sigma = 0.6
	w.after(townService*math.Exp(sigma*w.r.NormFloat64()-sigma*sigma/2), func() {
		w.busy--
		for len(w.queue) > 0 {
			next := w.queue[0]
			w.queue = w.queue[1:]
			if !next.gone {
				w.serve(next)
				return
			}
		}
	})
}

func (w *town) first(secs float64, local bool) {
	w.served++
	w.wait += secs
	if local {
		w.local++
	}
}

func (w *town) mean() float64  { return w.wait / float64(w.served) }
func (w *town) share() float64 { return float64(w.local) / float64(w.served) }

// A server of ten places is asked more than it can do. Local first at any price makes everybody wait; letting go of what
// would wait for long gives the first token within three seconds, keeps the server as busy, and nobody waits in vain.
func TestTierMode_TenPlaces(t *testing.T) {
	for _, rate := range []float64{1.5, 2.5, 4, 6} {
		t.Run(fmt.Sprintf("%v requests a second", rate), func(t *testing.T) {
			for seed := range uint64(3) {
				of := map[hearth.TierMode]*town{}
				for _, mode := range []hearth.TierMode{hearth.TierStrict, hearth.TierSpill, hearth.TierCost} {
					w := newTown(t, mode, seed)
					w.run(rate)
					of[mode] = w
					t.Logf("%-6s first token after %5.2f s, local share %.2f, %d waited in vain of %d", mode, w.mean(), w.share(), w.late, w.served)
				}
				strict := of[hearth.TierStrict]
				for _, mode := range []hearth.TierMode{hearth.TierSpill, hearth.TierCost} {
					w := of[mode]
					if w.mean() > 3 {
						t.Errorf("%s: the first token comes after %.2f s", mode, w.mean())
					}
					if w.share() < 0.96*strict.share() {
						t.Errorf("%s: %.2f are served by the own server, %.2f under strict", mode, w.share(), strict.share())
					}
					if w.late > w.served/100 {
						t.Errorf("%s: %d of %d wait in vain", mode, w.late, w.served)
					}
				}
				if rate > 2 && strict.mean() < 5 {
					t.Errorf("strict: %.2f s: the server has room, so nothing is shown", strict.mean())
				}
			}
		})
	}
}
