package slot

import (
	"context"
	"errors"
	"time"

	"myip.co.kr/hearth"
)

// Node is one machine's slots that the machine itself owns. The slots of this machine need none: the fleet runs them.
// Its methods may be called from many goroutines.
type Node interface {
	// Acquire decides whether a request may be sent to the machine now. All slots of a are the node's.
	Acquire(ctx context.Context, a Ask) (*Lease, error)
	// View is what is known of a slot, by its name. It takes no lock.
	View(slot string) hearth.SlotView
	// Order passes an operator's order on; o names a slot of the node, or the node itself.
	Order(ctx context.Context, o Order) error
	// LogTail is what Fleet.LogTail returns for a slot of the node.
	LogTail(slot string) ([]string, error)
	// Watch is called once, before anything else: emit, which waits for nobody, is to be told of every step of every slot.
	Watch(emit func(Event))
	// Reload makes a newer configuration of the node hold. What the node is reached by has not changed.
	Reload(n *hearth.Node, slots []*hearth.Slot)
	// RefuseWaiters refuses whoever waits, now and from now on.
	RefuseWaiters()
	// Close ends the connection to the machine. Its engines are its own affair.
	Close(ctx context.Context) error
}

// Verb is what an operator orders.
type Verb string

// Orders to a slot, and the last two to a node.
const (
	Wake    Verb = "wake"    // start it, and end a drain
	Sleep   Verb = "sleep"   // stop it once nobody uses it; the next request wakes it
	Drain   Verb = "drain"   // stop it once nobody uses it, and let no request in until it is woken or enabled
	Disable Verb = "disable" // Drain, and let the chain know nothing of it until it is enabled
	Enable  Verb = "enable"  // end Disable and Drain
	Pause   Verb = "pause"   // give the node back to its owner: Drain for all its slots
	Resume  Verb = "resume"  // end Pause
)

// Order is an operator's order. What it begins may take its time: an order is done when it is accepted.
type Order struct {
	Node string // pause and resume: the node
	Slot string // the others: the slot
	Verb Verb
	For  time.Duration // pause: how long, 0 or less = until resume
}

// Errors of Order and LogTail. An order that cannot be carried out as things stand has another error, in words for
// the operator.
var (
	ErrNoSlot = errors.New("no such slot")
	ErrNoNode = errors.New("no such node")
	ErrNoVerb = errors.New("no such order")
)

// State is what operators have ordered that a restart must not forget, by the names of slots and nodes.
type State struct {
	Disabled []string             `json:"disabled,omitzero"`
	Drained  []string             `json:"drained,omitzero"`
	Paused   map[string]time.Time `json:"paused,omitzero"` // until when
}

// Event is one step of a slot, or with From equal to To a change of what an operator or another gateway lets it do.
type Event struct {
	At       time.Time
	Node     string
	Slot     string
	Model    string
	From, To hearth.SlotState
	Why      string          // in words for the operator
	View     hearth.SlotView // afterwards
	Missed   int             // events that were lost since the last one: the watcher did not keep up
}
