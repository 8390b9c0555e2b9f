package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// trusted marks the context of a connection on which only the operator can be.
type trusted struct{}

// Trusted returns a context for connections whose other end is known to operate the gateway: admin routes ask for no key
// on them.
func Trusted(ctx context.Context) context.Context { return context.WithValue(ctx, trusted{}, true) }

// admin lets only the operator through: with an admin key, or on a trusted connection.
func (s *Server) admin(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Context().Value(trusted{}) != nil {
			return h(w, r)
		}
		key, err := s.authorise(w, r)
		if err != nil {
			return err
		}
		if !key.Admin {
			return hearth.Errorf(hearth.ErrNotAllowed, "this route is the operator's: it needs an admin key (hearth keys create NAME --admin)")
		}
		return h(w, r)
	}
}

// orderSlot gives an order to a slot and shows what it is like afterwards.
func (s *Server) orderSlot(v slot.Verb) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		conf, err := s.findSlot(r)
		if err != nil {
			return err
		}
		if _, err := orderBody(w, r); err != nil {
			return err
		}
		if err := s.order(r.Context(), slot.Order{Slot: conf.Name, Verb: v}); err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, slotAnswer{s.slotJSON(conf)})
	}
}

// orderNode gives an order to a node and shows its slots.
func (s *Server) orderNode(v slot.Verb) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		o := slot.Order{Node: r.PathValue("node"), Verb: v}
		length, err := orderBody(w, r)
		if err != nil {
			return err
		}
		if v == slot.Pause {
			o.For = length
		} else if length != 0 {
			return hearth.Invalid("for", "only a pause has a length")
		}
		if err := s.order(r.Context(), o); err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, struct {
			Data []slotJSON `json:"data"`
		}{s.slotsOf(o.Node)})
	}
}

// order carries an order out and says in the log that it did.
func (s *Server) order(ctx context.Context, o slot.Order) error {
	do := s.Order
	if do == nil {
		do = s.Fleet.Order
	}
	err := do(ctx, o)
	switch e := (*hearth.Error)(nil); {
	case err == nil:
		s.Log.Info("operator's order", "order", string(o.Verb), "slot", o.Slot, "node", o.Node, "for", o.For)
		return nil
	case errors.Is(err, slot.ErrNoSlot):
		return s.noSlot(o.Slot)
	case errors.Is(err, slot.ErrNoNode):
		return s.noNode(o.Node)
	case errors.As(err, &e), ctx.Err() != nil:
		return err
	}
	return &hearth.Error{Type: hearth.ErrInvalidRequest, Status: http.StatusConflict, Message: plain(err.Error(), 400)}
}

// maxOrder bounds the body of an order.
const maxOrder = 4 << 10

// orderBody reads how long an order is to hold: {"for": "2h"}; 0 = nothing is said of it.
func orderBody(w http.ResponseWriter, r *http.Request) (time.Duration, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOrder))
	if err != nil {
		if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
			return 0, hearth.Errorf(hearth.ErrPayloadTooLarge, "the body of an order may have up to %d bytes", maxOrder)
		}
		return 0, hearth.Errorf(hearth.ErrInvalidRequest, "the body ended before it was complete")
	}
	if strings.TrimSpace(string(b)) == "" {
		return 0, nil
	}
	var body struct {
		For string `json:"for"`
	}
	if err := json.Unmarshal(b, &body, json.RejectUnknownMembers(true)); err != nil {
		return 0, hearth.Errorf(hearth.ErrInvalidRequest, `the body of an order is empty, or says how long it is to hold: {"for": "2h"}`)
	}
	if body.For == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(body.For)
	if err != nil || d <= 0 {
		return 0, hearth.Invalid("for", `for must be a duration with its unit, such as "2h" or "90m"`)
	}
	return d, nil
}
