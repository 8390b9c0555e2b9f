package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/slot"
)

const (
	askWait   = 5 * time.Second // for what the machine itself is asked
	maxAnswer = 4 << 20
)

// Order passes an operator's order on. One to the node goes to the machine's nodes on which the slots of this one are.
func (c *Client) Order(ctx context.Context, o slot.Order) error {
	if o.Verb != slot.Pause && o.Verb != slot.Resume {
		return c.order(ctx, o.Slot, o)
	}
	err := slot.ErrNoSlot
	for _, name := range slices.Sorted(maps.Keys(*c.conf.Load())) {
		switch e := c.order(ctx, name, o); {
		case e == nil:
			err = nil
		case !errors.Is(e, slot.ErrNoSlot): // one that the machine does not have holds up no order to its nodes
			return e
		}
	}
	return err
}

func (c *Client) order(ctx context.Context, name string, o slot.Order) error {
	path := slotsPath + url.PathEscape(name) + "/" + string(o.Verb)
	if o.For > 0 {
		path += "?for=" + o.For.String()
	}
	_, err := c.ask(ctx, http.MethodPost, path)
	return err
}

// LogTail returns the last lines of a slot's engine.
func (c *Client) LogTail(name string) (lines []string, err error) {
	err = c.read(name, logRoute, &lines)
	return lines, err
}

// Starts are the last starts of a slot's engine, oldest first.
func (c *Client) Starts(name string) ([]slot.Start, error) {
	var told []start
	if err := c.read(name, startRoute, &told); err != nil {
		return nil, err
	}
	now := time.Now()
	starts := make([]slot.Start, len(told))
	for i, s := range told {
		starts[i] = slot.Start{At: now.Add(-ms(s.Ago)), Took: ms(s.Took), Outcome: slot.Outcome(s.Outcome), Why: s.Why}
	}
	return starts, nil
}

// start is the wire's form of a slot.Start.
type start struct {
	Ago     int64  `json:"ago_ms"`
	Took    int64  `json:"took_ms"`
	Outcome string `json:"outcome"`
	Why     string `json:"why"`
}

func (c *Client) read(name, route string, to any) error {
	b, err := c.ask(context.Background(), http.MethodGet, slotsPath+url.PathEscape(name)+route)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("read what the machine %s answered: %w", c.name, err)
	}
	return nil
}

// ask asks the machine itself. Its refusals are errors in its words.
func (c *Client) ask(ctx context.Context, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	resp, err := c.send(ctx, method, path)
	if err != nil {
		return nil, fmt.Errorf("the machine %s does not answer: %w", c.name, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the machine %s does not answer: %w", c.name, err)
	case resp.StatusCode == http.StatusNotFound:
		return nil, slot.ErrNoSlot
	case resp.StatusCode == http.StatusConflict:
		return nil, errors.New(readMessage(b))
	}
	if err := accepted(resp); err != nil {
		return nil, fmt.Errorf("ask the machine %s: %w", c.name, err)
	}
	return b, nil
}

// problem is the body of an answer that says no.
type problem struct {
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// maxMessage bounds what a machine may have a caller read.
const maxMessage = 300

// readMessage is what a refusal says.
func readMessage(b []byte) string {
	var p problem
	if err := json.Unmarshal(b, &p); err != nil || p.Error.Message == "" {
		return "the machine of the slot refuses the request"
	}
	text := []rune(p.Error.Message)
	return string(text[:min(len(text), maxMessage)])
}
