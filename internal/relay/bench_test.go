package relay

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

const mockAnswer = `{"id":"chatcmpl-mock","object":"chat.completion","created":1700000000,"model":"gemma-it","choices":[{"index":0,"message":{"role":"assistant","content":"Hello from the mock upstream, this is a short answer.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":11,"total_tokens":23,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":"fp_mock"}`

// quick is an upstream that costs next to nothing.
func quick(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(mockAnswer)))
	_, _ = io.WriteString(w, mockAnswer)
}

// BenchmarkChat is a whole request through loopback: caller, gateway, upstream, with a record in the journal. "direct"
// is the same without the gateway: the difference is the gateway's.
func BenchmarkChat(b *testing.B) {
	w := newWorld(b, setup{upstream: http.HandlerFunc(quick)})
	direct := serve(b, http.HandlerFunc(quick))
	for _, size := range []int{0, 4 << 10, 200 << 10} {
		body := []byte(chat(`, "padding": "` + strings.Repeat("lorem ", size/6) + `"`))
		for _, target := range []struct{ name, url string }{{"direct", direct}, {"hearth", w.url}} {
			b.Run(target.name+"/"+strconv.Itoa(size>>10)+"KB", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					resp, err := http.Post(target.url, "application/json", bytes.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < 100 || resp.StatusCode != 200 {
						b.Fatal(resp.StatusCode, n, err)
					}
					resp.Body.Close()
				}
			})
		}
	}
}
