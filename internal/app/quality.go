package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/server"
)

// quality keeps which endpoints give answers that are worse than they should be, as the operator or a benchmark says, in a
// file: a restart does not forget it. What the configuration says is not in it.
type quality struct {
	path string
	now  func() *snapshot

	mu   sync.Mutex // of changes, and of telling routers of them
	said doubts
}

// doubts is what is in the file.
type doubts struct {
	Flags      map[string]doubt    `json:"flags,omitempty"`      // the operator's, by Endpoint.ID
	Benchmarks map[string]Measured `json:"benchmarks,omitempty"` // likewise
}

type doubt struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// openQuality reads the file of a data directory.
func openQuality(dataDir string, now func() *snapshot) (*quality, error) {
	const most = 16 << 20
	q := &quality{path: filepath.Join(dataDir, "quality.json"), now: now}
	f, err := os.Open(q.path)
	if errors.Is(err, fs.ErrNotExist) {
		return q, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read whose quality is in doubt: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err == nil {
		err = json.Unmarshal(b, &q.said)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, in which is kept whose quality is in doubt, is damaged (%w): repair it, or remove it to forget the flags and benchmarks", q.path, err)
	}
	return q, nil
}

// tell tells the router of a snapshot of all flags.
func (q *quality) tell(s *snapshot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tellLocked(s)
}

func (q *quality) tellLocked(s *snapshot) {
	if s.router == nil {
		return
	}
	for _, e := range s.catalog.Endpoints {
		s.router.Flag(e.Index, q.flagOf(e) != nil)
	}
}

// flagOf is why the quality of an endpoint is in doubt, nil = it is not. The caller holds mu.
func (q *quality) flagOf(e *hearth.Endpoint) *server.Flag {
	if e.Local() {
		return nil
	}
	f := server.Flag{Endpoint: e.ID, Model: e.Model.ID, Provider: e.Provider.Slug}
	switch {
	case e.Flagged != "":
		f.By, f.Reason = "configuration", e.Flagged
	case q.said.Flags[e.ID].Reason != "":
		d := q.said.Flags[e.ID]
		f.By, f.Reason, f.Since = "operator", d.Reason, &d.Since
	case q.said.Benchmarks[e.ID].why() != "":
		f.By, f.Reason = "benchmark", q.said.Benchmarks[e.ID].why()
	default:
		return nil
	}
	return &f
}

// Why is why the quality of an endpoint is in doubt, "" = it is not.
func (q *quality) Why(e *hearth.Endpoint) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.flagOf(e); f != nil {
		return f.Reason
	}
	return ""
}

// List is the endpoints whose quality is in doubt, in the order of the catalog. Those that the router has found to break
// tool calls are among them.
func (q *quality) List() []server.Flag {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, s := []server.Flag{}, q.now()
	broken := brokenTools(s, time.Now())
	for _, e := range s.catalog.Endpoints {
		if f := q.flagOf(e); f != nil {
			list = append(list, *f)
		} else if part, ok := broken[e.Index]; ok {
			list = append(list, server.Flag{Endpoint: e.ID, Model: e.Model.ID, Provider: e.Provider.Slug, By: "gateway",
				Reason: fmt.Sprintf("about %.0f %% of its answers with tool calls are broken; for requests with tools", 100*part)})
		}
	}
	return list
}

// brokenTools is which endpoints the router has flagged for requests with tools, and how often their tool calls come out
// broken, 0 to 1.
func brokenTools(s *snapshot, now time.Time) map[int]float64 {
	if s.router == nil {
		return nil
	}
	of := map[int]float64{}
	for _, m := range s.catalog.Models {
		for _, t := range s.router.OverviewOf(m.ID, true, now, nil) {
			if t.Flagged {
				of[t.Endpoint] = t.BadTools
			}
		}
		for _, t := range s.router.OverviewOf(m.ID, false, now, nil) {
			if t.Flagged { // for all requests: somebody has said so, or had until a moment ago
				delete(of, t.Endpoint)
			}
		}
	}
	return of
}

// maxReason bounds the reason of a flag, in bytes.
const maxReason = 200

// Set flags an endpoint for a reason, or takes the operator's flag back without one.
func (q *quality) Set(endpoint, reason string) error {
	if reason = strings.TrimSpace(reason); len(reason) > maxReason || strings.ContainsFunc(reason, unicode.IsControl) {
		return hearth.Invalid("reason", "the reason must be one line of up to %d bytes", maxReason)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.now().catalog.Endpoints, func(e *hearth.Endpoint) bool { return e.ID == endpoint })
	switch {
	case i < 0:
		return hearth.Errorf(hearth.ErrNotFound, "there is no endpoint %s; the names are those of POST /api/v1/chain, such as acme:google/gemma-4-26b-a4b", shownName(endpoint))
	case q.now().catalog.Endpoints[i].Local():
		return hearth.Invalid("endpoint", "own slots are not flagged: disable the slot instead")
	}
	next := doubts{Flags: maps.Clone(q.said.Flags), Benchmarks: q.said.Benchmarks}
	if reason == "" {
		delete(next.Flags, endpoint)
	} else {
		if next.Flags == nil {
			next.Flags = map[string]doubt{}
		}
		next.Flags[endpoint] = doubt{reason, time.Now().UTC().Truncate(time.Second)}
	}
	if e := q.now().catalog.Endpoints[i]; reason == "" && e.Flagged != "" {
		return hearth.Invalid("endpoint", "the flag stands in the configuration: remove it there")
	}
	return q.keep(next)
}

// Import takes a benchmark in: what it says of an endpoint takes the place of what an earlier one said.
func (q *quality) Import(body []byte, dry bool) (server.Imported, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of, others, err := measured(q.now().catalog, body)
	if err != nil {
		return server.Imported{}, &hearth.Error{Type: hearth.ErrInvalidRequest, Message: "the benchmark is not taken in: " + err.Error()}
	}
	out := server.Imported{Others: others, Flagged: []string{}, Cleared: []string{}, Fine: []string{}}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		switch was := q.said.Benchmarks[id]; {
		case of[id].why() != "":
			out.Flagged = append(out.Flagged, id)
		case was.why() != "":
			out.Cleared = append(out.Cleared, id)
		default:
			out.Fine = append(out.Fine, id)
		}
	}
	if dry {
		return out, nil
	}
	next := doubts{Flags: q.said.Flags, Benchmarks: maps.Clone(q.said.Benchmarks)}
	if next.Benchmarks == nil {
		next.Benchmarks = map[string]Measured{}
	}
	maps.Copy(next.Benchmarks, of)
	return out, q.keep(next)
}

// keep writes down what holds from now on, and tells the router of it. The caller holds mu.
func (q *quality) keep(next doubts) error {
	b, err := json.Marshal(&next, json.Deterministic(true), jsontext.Multiline(true), jsontext.WithIndent("  "))
	if err == nil {
		err = replace(q.path, append(bytes.TrimSpace(b), '\n'))
	}
	if err != nil {
		return &hearth.Error{Type: hearth.ErrInternal, Message: "the change could not be written down, so it does not hold", Err: err}
	}
	q.said = next
	q.tellLocked(q.now())
	return nil
}
