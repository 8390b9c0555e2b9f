package crash

import (
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// models are served by two providers, one priced in US dollars and one in the billing currency.
var models = []string{"acme/first", "beta/second"}

func configuration(upstream, durability string) string {
	return fmt.Sprintf(`currency: KRW
timezone: Asia/Seoul
exchange_rates: {USD: 1390.37}
data_dir: data
default_model: %[2]s
records: {durability: %[4]s}
shutdown: {lame_duck: 0s, grace: 5s}
providers:
  - slug: acme
    name: Acme AI
    base_url: http://%[1]s/v1
    margin: 5.5%%
    models: [{model: %[2]s, context: 131072, price: {prompt: 0.0625, completion: 0.2401, cache_read: 0.0063, reasoning: 0.3}}]
  - slug: beta
    name: Beta
    base_url: http://%[1]s/v1
    currency: KRW
    models: [{model: %[3]s, context: 131072, price: {prompt: 30.5, completion: 150.25, cache_read: 3}}]
`, upstream, models[0], models[1], durability)
}

// usage is what the upstream counts for a question.
type usage struct{ prompt, cached, completion, reasoning int64 }

func usageOf(number int) usage {
	n := int64(number)
	u := usage{prompt: 1 + n*7919%50, completion: 1 + n*104729%400} // within what is held back for the question
	u.cached, u.reasoning = u.prompt*(n%5)/5, u.completion*(n%3)/3
	return u
}

// costOf is what the question must cost, by arithmetic of its own: nano-units, rounded half to even.
func costOf(model string, u usage) int64 {
	rat := func(s string) *big.Rat { r, _ := new(big.Rat).SetString(s); return r }
	prompt, completion, cached, reasoning, rate := "0.0625", "0.2401", "0.0063", "0.3", rat("1390.37")
	margin := rat("1.055")
	if model == models[1] {
		prompt, completion, cached, reasoning = "30.5", "150.25", "3", "150.25"
		rate, margin = rat("1"), rat("1")
	}
	sum := new(big.Rat)
	for _, part := range []struct {
		price string
		n     int64
	}{{prompt, u.prompt - u.cached}, {cached, u.cached}, {completion, u.completion - u.reasoning}, {reasoning, u.reasoning}} {
		sum.Add(sum, new(big.Rat).Mul(rat(part.price), big.NewRat(part.n, 1)))
	}
	sum.Mul(sum, rate).Mul(sum, margin).Mul(sum, big.NewRat(1000, 1)) // per million, in 10⁻⁹
	whole, rest := new(big.Int).QuoRem(sum.Num(), sum.Denom(), new(big.Int))
	switch rest.Lsh(rest, 1).Cmp(sum.Denom()) {
	case 1:
		whole.Add(whole, big.NewInt(1))
	case 0:
		whole.Add(whole, new(big.Int).And(whole, big.NewInt(1)))
	}
	return whole.Int64()
}

var asked = regexp.MustCompile(`"number (\d+)"`)

// upstream serves both providers on a port of its own.
func upstream(t *testing.T) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(answerQuestion), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	return ln.Addr().String()
}

func answerQuestion(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	m := asked.FindSubmatch(b)
	if err != nil || m == nil {
		http.Error(w, "no number", http.StatusBadRequest)
		return
	}
	number, _ := strconv.Atoi(string(m[1])) // it is one
	u := usageOf(number)
	counts := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.prompt, u.completion, u.prompt+u.completion, u.cached, u.reasoning)
	if !strings.Contains(string(b), `"stream":true`) && !strings.Contains(string(b), `"stream": true`) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c-%d","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"answer %d"},"finish_reason":"stop"}],"usage":%s}`, number, number, counts)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(data string) {
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = http.NewResponseController(w).Flush()
	}
	chunk := func(choice string) string {
		return fmt.Sprintf(`{"id":"c-%d","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}`, number, choice)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range number % 8 {
		event(chunk(fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","content":"piece %d "},"finish_reason":null}`, i)))
		<-tick.C
	}
	event(chunk(`{"index":0,"delta":{"role":"assistant","content":"the end"},"finish_reason":null}`))
	event(chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`))
	event(fmt.Sprintf(`{"id":"c-%d","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":%s}`, number, counts))
	event("[DONE]")
}
