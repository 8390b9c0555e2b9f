package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
)

// tempo is the speed of an answer.
type tempo struct {
	first  time.Duration // until the first token
	perSec float64       // tokens per second after it, 0 = no limit
}

// until waits until token i is due, counted from start; false = the client left.
func (t tempo) until(ctx context.Context, start time.Time, i int) bool {
	due := t.first
	if t.perSec > 0 {
		due += time.Duration(float64(i) / t.perSec * float64(time.Second))
	}
	rest := due - time.Since(start)
	if rest <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// introduce is an answer that says who gives it, in the language of the question.
func introduce(q *question, model, provider string) string {
	switch {
	case q.hangul && provider != "":
		return "저는 " + model + " 모델이고, 외부 제공자 " + provider + " 에서 답하고 있습니다. 이 답은 연습용으로 만든 것이며, 실제 제공자처럼 " +
			"한 토큰씩 보내 드립니다. 질문 잘 받았습니다."
	case q.hangul:
		return "저는 " + model + " 모델이고, 이 컴퓨터의 GPU 슬롯에서 답하고 있습니다. 질문은 이 집 밖으로 나가지 않았습니다. 이 답은 연습용으로 " +
			"만든 것이며, 실제 엔진처럼 한 토큰씩 보내 드립니다."
	case provider != "":
		return "I am " + model + " and I answer from the external provider " + provider + ". This answer is simulated, but it is sent " +
			"one token at a time as a real provider would send it. Your question has arrived."
	}
	return "I am " + model + " and I answer from a slot on your own GPU. Your prompt did not leave the house. This answer is simulated, " +
		"but it is sent one token at a time as a real engine would send it."
}

// pieces cuts a text into the tokens in which it is sent: words, each with the blank before it.
func pieces(text string) []string {
	words := strings.Split(text, " ")
	for i := range words[1:] {
		words[i+1] = " " + words[i+1]
	}
	return words
}

type delta struct {
	Role    string  `json:"role,omitzero"`
	Content *string `json:"content,omitzero"`
}

type choice struct {
	Index   int     `json:"index"`
	Delta   *delta  `json:"delta,omitzero"`
	Message *delta  `json:"message,omitzero"`
	Finish  *string `json:"finish_reason"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Cost *jsontext.Value `json:"cost,omitzero"` // an exact decimal number
}

type timings struct {
	PromptN         int     `json:"prompt_n"`
	PromptMS        float64 `json:"prompt_ms"`
	PredictedN      int     `json:"predicted_n"`
	PredictedMS     float64 `json:"predicted_ms"`
	PredictedPerSec float64 `json:"predicted_per_second"`
}

// document is a whole answer or one chunk of it.
type document struct {
	ID       string   `json:"id"`
	Object   string   `json:"object"`
	Created  int64    `json:"created"`
	Model    string   `json:"model"`
	Provider string   `json:"provider,omitzero"`
	Choices  []choice `json:"choices"`
	Usage    *usage   `json:"usage,omitzero"`
	Timings  *timings `json:"timings,omitzero"`
}

// completion writes one answer to a chat request.
type completion struct {
	w        http.ResponseWriter
	cost     func(prompt, completion int) decimal.Decimal // what an answer of so many tokens costs; nil = nobody asks
	q        *question
	doc      document // what every chunk has in common
	tokens   []string
	finish   string
	tempo    tempo
	timed    bool // with llama-server's timings
	start    time.Time
	first    time.Duration // until the first token
	produced int
}

// newCompletion prepares the answer text, cut to what the client allows and to what the window has room for.
func newCompletion(w http.ResponseWriter, q *question, model, text string, room int, t tempo) *completion {
	c := &completion{w: w, q: q, tokens: pieces(text), finish: "stop", tempo: t, start: time.Now()}
	c.doc = document{ID: "chatcmpl-" + rand.Text(), Created: c.start.Unix(), Model: model}
	limit := q.limit()
	if limit < 0 || limit > int64(room) {
		limit = int64(room)
	}
	if q.IgnoreEOS {
		for once := c.tokens; int64(len(c.tokens)) <= limit; {
			c.tokens = append(c.tokens, once...)
		}
	}
	if int64(len(c.tokens)) > limit {
		c.tokens, c.finish = c.tokens[:limit], "length"
	}
	return c
}

// write sends the answer at its tempo; an error means that the client left.
func (c *completion) write(ctx context.Context) error {
	if !c.q.Stream {
		return c.whole(ctx)
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	if err := c.content(ctx, len(c.tokens)); err != nil {
		return err
	}
	return c.end()
}

// whole sends the answer as one document.
func (c *completion) whole(ctx context.Context) error {
	if err := c.generate(ctx); err != nil {
		return err
	}
	writeJSON(c.w, http.StatusOK, c.answer())
	return nil
}

// generate lets the time pass that all tokens take.
func (c *completion) generate(ctx context.Context) error {
	for i := range c.tokens {
		if err := c.await(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// answer is the whole answer.
func (c *completion) answer() document {
	d, text := c.doc, strings.Join(c.tokens, "")
	d.Object = "chat.completion"
	d.Choices = []choice{{Message: &delta{Role: "assistant", Content: &text}, Finish: &c.finish}}
	d.Usage, d.Timings = c.usage(), c.timings()
	return d
}

// await waits until token i is due and counts it.
func (c *completion) await(ctx context.Context, i int) error {
	if !c.tempo.until(ctx, c.start, i) {
		return ctx.Err()
	}
	if c.produced++; i == 0 {
		c.first = time.Since(c.start)
	}
	return nil
}

// begin waits for the first token and sends the headers and the chunk that names the role, as llama-server does.
func (c *completion) begin(ctx context.Context) error {
	if !c.tempo.until(ctx, c.start, 0) {
		return ctx.Err()
	}
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("Cache-Control", "no-cache")
	c.doc.Object = "chat.completion.chunk"
	return c.piece(choice{Delta: &delta{Role: "assistant", Content: new(string)}})
}

// content sends the first n tokens, each when it is due.
func (c *completion) content(ctx context.Context, n int) error {
	for i := range n {
		if err := c.await(ctx, i); err != nil {
			return err
		}
		if err := c.piece(choice{Delta: &delta{Content: &c.tokens[i]}}); err != nil {
			return err
		}
	}
	return nil
}

// end sends the finish reason, the usage if it was asked for, and the last event.
func (c *completion) end() error {
	t := c.timings()
	if c.q.StreamOptions.IncludeUsage {
		t = nil // it goes with the usage
	}
	var u *usage
	if c.q.StreamOptions.IncludeUsage && c.q.StreamOptions.Continuous {
		u = c.usage()
	}
	if err := c.chunk(choice{Delta: &delta{}, Finish: &c.finish}, u, t); err != nil {
		return err
	}
	if c.q.StreamOptions.IncludeUsage {
		d := c.doc
		d.Choices, d.Usage, d.Timings = []choice{}, c.usage(), c.timings()
		if err := c.event(d); err != nil {
			return err
		}
	}
	return c.raw("data: [DONE]\n\n")
}

// piece sends a chunk of the answer, with the counts so far that were asked for.
func (c *completion) piece(ch choice) error {
	var u *usage
	var t *timings
	if c.q.StreamOptions.IncludeUsage && c.q.StreamOptions.Continuous {
		u = c.usage()
	}
	if c.q.TimingsPerToken {
		t = c.timings()
	}
	return c.chunk(ch, u, t)
}

func (c *completion) chunk(ch choice, u *usage, t *timings) error {
	d := c.doc
	d.Choices, d.Usage, d.Timings = []choice{ch}, u, t
	return c.event(d)
}

func (c *completion) event(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a chunk: %w", err)
	}
	return c.raw("data: " + string(b) + "\n\n")
}

// raw sends text as it is, at once.
func (c *completion) raw(text string) error {
	if _, err := c.w.Write([]byte(text)); err != nil {
		return fmt.Errorf("write a chunk: %w", err)
	}
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		return fmt.Errorf("flush a chunk: %w", err)
	}
	return nil
}

func (c *completion) usage() *usage {
	u := &usage{Prompt: c.q.tokens, Completion: c.produced, Total: c.q.tokens + c.produced}
	if c.cost != nil {
		cost := jsontext.Value(c.cost(c.q.tokens, c.produced).String())
		u.Cost = &cost
	}
	return u
}

func (c *completion) timings() *timings {
	if !c.timed {
		return nil
	}
	rest := time.Since(c.start) - c.first
	t := &timings{PromptN: c.q.tokens, PromptMS: ms(c.first), PredictedN: c.produced, PredictedMS: ms(rest)}
	if rest > 0 {
		t.PredictedPerSec = float64(c.produced) / rest.Seconds()
	}
	return t
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
