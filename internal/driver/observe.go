package driver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

const (
	// askAgain is how long what an engine said of its models is good for, while it is asked whether it is ready.
	askAgain = 500 * time.Millisecond
	// wrongFor is how long an engine may list other models before it is given up: its list may be filled later.
	wrongFor = 10 * time.Second
)

// observer asks one engine over HTTP whether it is ready to answer with the slot's model, and what it says of itself.
// It remembers the last answer, so that it can be asked often.
type observer struct {
	conf  *hearth.Slot
	probe *prober
	// strict: the engine is somebody else's, or has many models: it must list this one by a name that is known. Else
	// the one model that it has is taken, if the operator has not said another name.
	strict bool
	// inMemory: the engine is loaded by orders, and must say that it has the model in memory, if it says so of any.
	inMemory bool

	mu     sync.Mutex
	base   string      // whose answer report is
	asked  time.Time   // when
	report slot.Report // last answer
	wrong  time.Time   // since when it lists other models; zero = it does not
	ready  bool        // it has been ready
}

// saidError is why an engine will not be ready, or is not any more, by what it said of itself.
type saidError struct{ message string }

func (e *saidError) Error() string { return e.message }

// newObserver makes the observer of an engine that the gateway has started, or of somebody else's.
func newObserver(s *hearth.Slot, dial dialer) *observer {
	return &observer{
		conf: s, probe: newProber(dial), strict: s.UpstreamModel != "" || s.Driver == Always || s.Driver == HTTP, inMemory: s.Preset != "",
	}
}

func (o *observer) close() { o.probe.close() }

// look asks the engine at base once. An error is of the network, a *refusedError, or a *saidError.
func (o *observer) look(ctx context.Context, base string, key hearth.Secret) (slot.Report, error) {
	status, err := o.probe.status(ctx, base, o.conf.Probe, key)
	if err != nil {
		return slot.Report{}, err
	}
	// A TabbyAPI never forgets what once went wrong, and works all the same.
	if status != http.StatusOK && (o.conf.Engine != tabbyAPI || status != http.StatusServiceUnavailable) {
		return slot.Report{Why: fmt.Sprintf("it answers with status %d", status)}, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.base == base && time.Since(o.asked) < askAgain {
		return o.report, nil
	}
	a := asker{o.probe, base, key}
	report, lacks, err := o.examine(ctx, a)
	if err != nil {
		return slot.Report{}, err
	}
	o.base, o.asked, o.report = base, time.Now(), report
	if !lacks {
		o.wrong = time.Time{}
		o.ready = o.ready || report.Ready
		return report, nil
	}
	if o.wrong.IsZero() {
		o.wrong = o.asked
	}
	// An answer from another model must never be passed off as one from this.
	if o.ready || o.conf.Driver == Always || o.asked.Sub(o.wrong) >= wrongFor {
		return slot.Report{}, &saidError{"the engine has another model: " + report.Why}
	}
	return report, nil
}

// wasReady says whether the engine has been ready.
func (o *observer) wasReady() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ready
}

// examine asks which models the engine has. lacks is true if it has the slot's model neither in memory nor elsewhere.
func (o *observer) examine(ctx context.Context, a asker) (r slot.Report, lacks bool, err error) {
	models, ok, err := a.list(ctx, o.conf.Engine)
	if err != nil {
		return r, false, err
	}
	if !ok {
		if !o.strict {
			r.Ready, r.Facts.Warning = true, "it does not say which model it has"
			return r, false, nil
		}
		r.Why = "it does not list its models"
		return r, true, nil
	}
	m := o.find(models)
	if m == nil {
		r.Why = others(models)
		return r, true, nil
	}
	if err := a.more(ctx, o.kind(m), m); err != nil {
		return r, false, err
	}
	switch {
	case m.failed && m.state != loaded:
		r.Why = "it could not load the model"
		return r, o.inMemory, nil
	case o.inMemory && m.state == unloaded:
		r.Why = "it has not loaded the model"
		return r, o.ready, nil
	}
	r.Ready = true
	r.Facts = hearth.SlotFacts{Window: m.window, Parallel: m.parallel, Model: clean(m.names[0], maxText), Warning: o.differs(m)}
	return r, false, nil
}

// find finds the slot's model, nil if the engine does not have it.
func (o *observer) find(models []offer) *offer {
	for i := range models {
		for _, name := range models[i].names {
			if o.means(o.kind(&models[i]), name) {
				return &models[i]
			}
		}
	}
	// An engine that minds the name would refuse every request.
	if !o.strict && len(models) == 1 && !mindsNames(o.kind(&models[0])) {
		return &models[0]
	}
	return nil
}

// kind is the kind of engine that has a model, "" = not known.
func (o *observer) kind(m *offer) string {
	if o.conf.Engine != "" {
		return o.conf.Engine
	}
	return m.kind
}

// mindsNames says whether engines of that kind refuse a request for a model by another name than theirs.
func mindsNames(kind string) bool { return kind == vllm || kind == ollama || kind == lmStudio }

// means says whether an engine of that kind means the slot's model by that name.
func (o *observer) means(kind, name string) bool {
	want := engineModel(o.conf)
	switch {
	case kind == vllm:
		return name == want
	case sameName(name, want):
		return true
	}
	_, slug, ok := strings.Cut(want, "/")
	return ok && o.conf.UpstreamModel == "" && !mindsNames(kind) && sameName(name, slug)
}

// engineModel is what the engine of a slot calls its model.
func engineModel(s *hearth.Slot) string {
	if s.UpstreamModel == "" && s.Model != nil {
		return s.Model.ID
	}
	return s.UpstreamModel
}

// differs says where the engine contradicts the configuration, "" if it does not. Its numbers are compared by who keeps them:
// the configuration of those may change while it runs.
func (o *observer) differs(m *offer) string {
	var says []string
	if !o.strict && !slices.ContainsFunc(m.names, func(name string) bool { return o.means(o.kind(m), name) }) {
		says = append(says, "it calls its model "+clean(m.names[0], 100))
	}
	if m.kind != "" && o.conf.Engine != "" && m.kind != o.conf.Engine {
		says = append(says, "it looks like "+m.kind+", not "+o.conf.Engine+" (engine)")
	}
	return strings.Join(says, "; ")
}

// others says in words which models the engine has instead.
func others(models []offer) string {
	if len(models) == 0 {
		return "it has no model loaded"
	}
	var names []string
	for i := range models {
		if i == 5 {
			names = append(names, "…")
			break
		}
		names = append(names, clean(models[i].names[0], 100))
	}
	return "it lists other models: " + strings.Join(names, ", ")
}

// clean makes what an engine wrote fit for an operator's terminal, in at most limit bytes.
func clean(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), limit+4)], ""))
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strings.TrimSpace(s)
}
