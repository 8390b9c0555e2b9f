// Package slot decides which engine runs on which GPU node and which request may use it.
//
// The decisions are one pure function, step: a node's state and an event give effects. One goroutine per node
// owns that state, everybody else sends it events, and what takes time (starting, probing, stopping an engine)
// is carried out beside it, so that nothing the package waits for can block it. What the rest of the gateway may
// know is published as immutable views.
package slot

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"myip.co.kr/hearth"
)

// Ask is a request for a place in a slot's engine.
type Ask struct {
	// Slot is the one that is asked for. It may be of an older catalog: a slot is known by its node and its name.
	Slot *hearth.Slot
	// Also are further slots of the same node that would do. One wait and one budget hold for all: Slot is asked for,
	// and whichever is ready first with a free place serves.
	Also []*hearth.Slot
	Key  string // id of the caller's key, "" = not known: waiting requests take turns by it
	// Class is that of the key: requests of batch keys wait behind all others, but not past their budget.
	Class hearth.Class
	// Budget is how long this request may wait for the slot at most, however long the slot itself would let it.
	// 0 or less: take a free place of a ready engine or leave at once.
	Budget  time.Duration
	HasNext bool // another candidate could serve the request: the shorter QueueWait holds in a ready slot
	// Brief is a question beside a request: how long it has its place says nothing of how long requests do.
	Brief bool
	// Vote: whoever asks will not send a request, but leave a vote for the slot to be started. A node elsewhere, where requests
	// wait, is told of it at once and gives no lease.
	Vote bool
	// Generation is the id of the request, for a node elsewhere.
	Generation string
}

// Lease is the right to send one request to an engine. It must be released when the engine is done with it.
type Lease struct {
	URL    string        // base URL of the engine, without /v1 and without a final slash
	APIKey hearth.Secret // what the engine wants as bearer token, "" = nothing
	Slot   *hearth.Slot  // which of the slots asked for serves, as the caller gave it
	// Remote says that another machine owns the slot and decides on its own: the request waits there.
	Remote bool
	// Transport carries requests to an engine elsewhere, nil = it is reached like any engine of this machine. That the
	// machine refuses the request, or that the connection to it breaks, is a *Refusal among the errors of the answer.
	Transport http.RoundTripper
	// Waited is how long the requests of this lease waited elsewhere for the slot; nil = they do not.
	Waited func() time.Duration
	// Cut is closed when the engine is to go now, whatever it is doing: what is in flight must end with an error. A swap
	// never closes it.
	Cut <-chan struct{}
	// Gone is closed when the engine is no more, or is being stopped: what becomes of a request in it then says nothing of
	// the engine. nil = nobody will know.
	Gone   <-chan struct{}
	Mortal bool // the engine's death is noticed, and Gone is then closed soon; else only a probe tells
	// Returned, if not nil, is what Release calls, at the first call or at every one; for nodes elsewhere.
	Returned func()

	node *node
	id   uint64
	slot int
	ends *ends
}

// OnCut has f called, in a goroutine of its own, when Cut is closed, unless stop is called before; stop says whether it
// was in time.
func (l *Lease) OnCut(f func()) (stop func() bool) {
	if l.ends == nil {
		return never
	}
	return context.AfterFunc(l.ends.cut, f)
}

// OnGone is OnCut for Gone.
func (l *Lease) OnGone(f func()) (stop func() bool) {
	if l.ends == nil {
		return never
	}
	return context.AfterFunc(l.ends.gone, f)
}

func never() bool { return true }

// Release gives the place back. Only the first call counts: the node knows each lease once. The zero Lease has
// nothing to give back.
func (l *Lease) Release() {
	if l.Returned != nil {
		l.Returned()
	}
	if l.node != nil {
		l.node.tell(message{event: event{kind: evReleased, slot: l.slot, id: l.id}})
	}
}

// Refusal is the error of Acquire when the slot cannot be had.
type Refusal struct {
	Word       hearth.SkipReason // one of the four slot words
	RetryAfter time.Duration     // when asking again makes sense, at least one second
	Message    string            // fit for a caller's eyes
}

// ErrUnsent stands beside the Refusal of a machine elsewhere: the engine was gone before it could do anything about the
// request, so the slot may be asked again.
var ErrUnsent = errors.New("the engine was gone before it had the request")

// Messages of requests that a reload has overtaken.
const (
	notThere   = "the slot is not configured any more"
	otherModel = "the slot runs another model by now"
)

// Overtaken says whether the slot is refused because a newer configuration than the asker's holds: there may be another
// one by now.
func (r *Refusal) Overtaken() bool { return r.Message == notThere || r.Message == otherModel }

func (r *Refusal) Error() string { return string(r.Word) + ": " + r.Message }

// Driver starts the engines of one kind of slot.
type Driver interface {
	// Start begins to start an engine for s and returns without waiting for it to be ready. When ctx ends before
	// Start has returned, Start gives up, leaving nothing behind, or returns an engine that will be stopped.
	// An error means that nothing was started; it is a *BusyError if the engine is not to blame.
	Start(ctx context.Context, s *hearth.Slot) (Engine, error)
}

// Engine is a started engine, from its start until nothing of it is left.
type Engine interface {
	// URL is the base URL, without /v1. It is final once Probe has said that the engine is ready.
	URL() string
	// APIKey is the bearer token that the engine wants, "" = none.
	APIKey() hearth.Secret
	// Probe asks once whether the engine is ready. Not ready is no error; an error means that it never will be or,
	// if it was ready, that it is gone. It is a *BusyError if the engine is not to blame.
	Probe(ctx context.Context) (Report, error)
	// Died is closed at once when the engine can serve nobody any more, though something of it may be left; not while it
	// may still get ready. nil = that is not noticed, only probes can tell.
	Died() <-chan struct{}
	// Exited is closed when the engine has ended, whatever the reason, and nothing that it did not leave behind on purpose
	// is left of it. It comes soon after Died.
	Exited() <-chan struct{}
	// ExitError says how the engine ended; it is valid after Died, and after Exited. Its text is fit for a caller if it is an *ExitError.
	ExitError() error
	// LogTail returns the last lines that the engine wrote, for the operator.
	LogTail() []string
	// Stop ends the engine: politely, and by force after grace or as soon as ctx ends. It returns nil when nothing
	// of the engine is left, also when nothing was left before, and may be called again after an error.
	Stop(ctx context.Context, grace time.Duration) error
	// Leave lets go of an engine that goes on when the gateway ends, so that a later gateway can adopt it. Nothing
	// else is called afterwards, unless it fails.
	Leave() error
}

// Report is what an engine says of itself at one probe.
type Report struct {
	Ready bool
	Why   string           // not ready: in words for the operator, "" = it is only not there yet
	Facts hearth.SlotFacts // what it said; zero fields = not said
}

// BusyError says that the device cannot be had now, or is not ours: nothing is wrong with the engine.
type BusyError struct {
	Message string // fit for a caller's eyes
}

func (e *BusyError) Error() string { return e.Message }

// ExitError is how an engine's process ended.
type ExitError struct {
	Code   int    // exit code, -1 if a signal ended it
	Signal string // name of that signal, else ""
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "engine ended by signal: " + e.Signal
	}
	return "engine exited with code " + strconv.Itoa(e.Code)
}
