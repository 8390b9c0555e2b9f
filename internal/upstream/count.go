package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

const (
	countWait = 2 * time.Second // for all of it: a caller waits, and the other candidates do
	maxCount  = 8 << 20         // bytes of an answer about a prompt
	maxTokens = 1 << 31         // more than any prompt has
)

var (
	errNoCount = errors.New("the engine counts no prompts")
	errMedia   = errors.New("the prompt holds media, which the engine does not count as text")
	errNoSense = errors.New("the engine's answer holds no count")
)

// Count asks the engine behind a local endpoint how many tokens the prompt of call.Body has, in the way that kind of
// engine counts (see [hearth.Engine]); it takes two seconds at most. Only text is counted: llama-server's way fails for
// a prompt with images or sound, vLLM's counts a few tokens for each. The body goes to the engine of the call and
// nowhere else, and call.Done is called when nobody reads it any more.
func (c *Client) Count(ctx context.Context, call *Call) (tokens int, err error) {
	t, way, err := c.countingEngine(call)
	if err != nil {
		if call.Done != nil {
			call.Done()
		}
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	if way == hearth.CountsTemplate {
		tokens, err = t.countTemplate(ctx, call)
	} else {
		err = t.ask(ctx, "/tokenize", call.Body, call.Done, func(dec *jsontext.Decoder) (err error) {
			tokens, err = readCount(dec)
			return err
		})
	}
	if err != nil {
		return 0, err
	}
	if tokens <= 0 || tokens > maxTokens {
		return 0, errNoSense
	}
	return tokens, nil
}

// countingEngine finds the engine behind a call and how it counts.
func (c *Client) countingEngine(call *Call) (*target, hearth.Counting, error) {
	slot := call.Endpoint.Slot
	if !call.Endpoint.Local() || slot == nil {
		return nil, 0, errors.New("no prompt is counted outside of the house")
	}
	e, _ := hearth.EngineOf(slot.Engine) // an unknown one counts nothing
	if e.Counts == hearth.CountsNot {
		return nil, 0, errNoCount
	}
	t, err := c.targetOf(call)
	return t, e.Counts, err
}

// countTemplate lets llama-server make one text of the messages, and then tokens of the text, as it does with a request.
func (t *target) countTemplate(ctx context.Context, call *Call) (tokens int, err error) {
	var prompt jsontext.Value
	err = t.ask(ctx, "/apply-template", call.Body, call.Done, func(dec *jsontext.Decoder) (err error) {
		prompt, err = readPrompt(dec)
		return err
	})
	if err != nil {
		return 0, err
	}
	body := make([]byte, 0, len(prompt)+64)
	body = append(append(body, `{"content":`...), prompt...)
	body = append(body, `,"add_special":true,"parse_special":true}`...)
	err = t.ask(ctx, "/tokenize", body, nil, func(dec *jsontext.Decoder) (err error) {
		tokens, err = readCount(dec)
		return err
	})
	return tokens, err
}

// ask sends a body to another route of the engine and reads the object it answers with.
func (t *target) ask(ctx context.Context, route string, body []byte, done func(), read func(*jsontext.Decoder) error) error {
	u := *t.url
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/v1/chat/completions")+route, ""
	resp, err := (&target{url: &u, header: t.header, rt: t.rt}).send(ctx, body, done)
	if err != nil {
		return fmt.Errorf("ask the engine at %s: %s", route, judgeSend(err, context.Cause(ctx)).Message)
	}
	defer t.pool.left()
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the engine answered %d at %s", resp.StatusCode, route)
	}
	if !decompress(resp) {
		return errNoSense
	}
	dec := jsontext.NewDecoder(io.LimitReader(resp.Body, maxCount), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return errNoSense
	}
	if err := read(dec); err != nil {
		return err
	}
	return ctx.Err()
}

// each walks the members of an object whose opening was read; value has to take the member's value.
func each(dec *jsontext.Decoder, value func(name string) error) error {
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return errNoSense
		}
		if err := value(tok.String()); err != nil {
			return err
		}
	}
	return nil
}

// readPrompt is the text in llama-server's answer, as a JSON string.
func readPrompt(dec *jsontext.Decoder) (prompt jsontext.Value, err error) {
	err = each(dec, func(name string) error {
		v, err := dec.ReadValue()
		if err != nil {
			return errNoSense
		}
		if name == "prompt" && v.Kind() == '"' {
			prompt = v.Clone()
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case prompt == nil:
		return nil, errNoSense
	case bytes.Contains(prompt, []byte("<__media__>")):
		return nil, errMedia
	}
	return prompt, nil
}

// readCount is the number of tokens in an engine's answer: the number itself, else the length of the list of them.
func readCount(dec *jsontext.Decoder) (n int, err error) {
	listed, counted := 0, -1
	err = each(dec, func(name string) error {
		switch {
		case name == "count" && dec.PeekKind() == '0':
			v, err := dec.ReadValue()
			if counted, _ = strconv.Atoi(string(v)); err != nil { // no whole number is no sense, as 0 is
				return errNoSense
			}
			return nil
		case name == "tokens" && dec.PeekKind() == '[':
			_, _ = dec.ReadToken() // PeekKind saw it
			for listed = 0; dec.PeekKind() != ']'; listed++ {
				if err := dec.SkipValue(); err != nil {
					return errNoSense
				}
			}
			_, err := dec.ReadToken()
			return err
		}
		if err := dec.SkipValue(); err != nil {
			return errNoSense
		}
		return nil
	})
	if counted >= 0 {
		listed = counted
	}
	return listed, err
}
