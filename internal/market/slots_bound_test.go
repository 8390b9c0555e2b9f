package market

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// job is a request of a tiny instance, in whole units of time.
type job struct{ model, at, until, takes int }

// fewest tries every schedule of a tiny instance whose times are whole numbers, and returns the loads of the best that
// serves all jobs, or -1. Engines are stopped in no time and take any number of requests at once; whichever model is best
// is ready at the beginning, 0.
func fewest(loads []int, jobs []job, end int) int {
	all := uint(1)<<len(jobs) - 1
	size := (end + 1) << len(jobs)
	stays, leaves := make([]int, size*len(loads)), make([]int, size) // what is known already, plus one
	var stay func(from, model int, served uint) int
	// leave is what is needed from an instant on at which no model is ready.
	leave := func(at int, served uint) int {
		if served == all {
			return 0
		}
		known := &leaves[at<<len(jobs)|int(served)]
		if *known == 0 {
			best := impossible
			for m := range loads {
				for ready := at + loads[m]; ready <= end; ready++ {
					best = min(best, 1+stay(ready, m, served))
				}
			}
			*known = best + 1
		}
		return *known - 1
	}
	stay = func(from, model int, served uint) int {
		known := &stays[(from<<len(jobs)|int(served))*len(loads)+model]
		if *known == 0 {
			best := impossible
			for to := from; to <= end; to++ {
				now := served
				for i, j := range jobs {
					if start := max(from, j.at); j.model == model && start <= j.until && start+j.takes <= to {
						now |= 1 << i
					}
				}
				best = min(best, leave(to, now))
			}
			*known = best + 1
		}
		return *known - 1
	}
	best := impossible
	for m := range loads {
		best = min(best, stay(0, m, 0))
	}
	if best >= impossible {
		return -1
	}
	return best
}

// windowsOf are a tiny instance's requests as the bound takes them.
func windowsOf(loads []int, jobs []job) (list []window) {
	for _, j := range jobs {
		list = append(list, window{j.model, time.Duration(j.at + j.takes), time.Duration(j.until - loads[j.model])})
	}
	return list
}

func TestLeastLoads_Property(t *testing.T) {
	exact, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		loads := rapid.SliceOfN(rapid.IntRange(1, 4), 2, 4).Draw(t, "loads")
		jobs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) job {
			at := rapid.IntRange(1, 30).Draw(t, "at")
			return job{rapid.IntRange(0, len(loads)-1).Draw(t, "model"), at, at + rapid.IntRange(2, 12).Draw(t, "budget"), rapid.IntRange(1, 4).Draw(t, "takes")}
		}), 4, 9).Draw(t, "jobs")
		const end = 48
		want := fewest(loads, jobs, end)
		if want < 0 {
			return // nobody can serve them all
		}
		got := leastLoads(len(loads), windowsOf(loads, jobs), 0, end)
		if got > want {
			t.Fatalf("at least %d loads, but a schedule has %d", got, want)
		}
		if all++; got == want {
			exact++
		}
	})
	t.Logf("exact in %d of %d", exact, all)
	if exact*10 < all*8 {
		t.Errorf("the bound is exact in %d of %d instances only", exact, all)
	}
}

func TestLeastLoads(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name string
		list []window
		from time.Duration
		to   time.Duration
		want int
	}{
		{"nobody asks", nil, 0, 100 * s, 0},
		{"one model needs none if it is there", []window{{0, 2 * s, 9 * s}, {0, 50 * s, 55 * s}}, 0, 100 * s, 0},
		{"two models need one", []window{{0, 2 * s, 9 * s}, {1, 3 * s, 9 * s}}, 0, 100 * s, 1},
		{"what can wait for the other to be done is served in one go", []window{{0, 2 * s, 9 * s}, {1, 3 * s, 20 * s}, {0, 6 * s, 15 * s}, {1, 8 * s, 30 * s}}, 0, 100 * s, 1},
		{"what cannot is not", []window{{0, 2 * s, 9 * s}, {1, 3 * s, 9 * s}, {0, 12 * s, 15 * s}, {1, 18 * s, 30 * s}}, 0, 100 * s, 2},
		{"a model in use cannot be left", []window{{0, 2 * s, 9 * s}, {1, 3 * s, 9 * s}, {0, 10 * s, 12 * s}}, 0, 100 * s, 1},
		{"loads after the end do not count", []window{{0, 2 * s, 9 * s}, {1, 3 * s, 101 * s}}, 0, 100 * s, 0},
		{"a rare model costs two loads each time", []window{{0, 2 * s, 9 * s}, {1, 3 * s, 9 * s}, {0, 12 * s, 19 * s}, {0, 99 * s, 109 * s}, {1, 101 * s, 108 * s}, {0, 115 * s, 120 * s}}, 0, 200 * s, 3},
		{"three models need two", []window{{0, 2 * s, 9 * s}, {1, 3 * s, 9 * s}, {2, 4 * s, 9 * s}}, 0, 100 * s, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := leastLoads(3, c.list, c.from, c.to); got != c.want {
				t.Errorf("%d loads, want %d", got, c.want)
			}
		})
	}
}
