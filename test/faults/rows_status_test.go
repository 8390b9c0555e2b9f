package faults

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// refusal answers with a status and an error in OpenAI's shape.
func refusal(status int, message string, lines ...string) script {
	return script{say(reply(fmt.Sprintf("%d %s", status, http.StatusText(status)), fmt.Sprintf(`{"error":{"code":%d,"message":%q}}`, status, message), lines...))}
}

// withBody answers with a status and a body as it stands.
func withBody(status int, body string) script {
	return script{say(reply(fmt.Sprintf("%d %s", status, http.StatusText(status)), body))}
}

var statuses = []row{
	{name: "429 with Retry-After 1", both: refusal(429, "slow down", "Retry-After: 1"), blame: resting, status: "429"},
	{name: "429 with Retry-After 60", both: refusal(429, "slow down", "Retry-After: 60"), blame: limited, status: "429"},
	{name: "429 with Retry-After as a date", both: script{func(l *link) bool {
		return l.say(reply("429 Too Many Requests", `{"error":{"message":"slow down"}}`, "Retry-After: "+time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)))
	}}, blame: limited, status: "429"},
	{name: "429 without a time", both: refusal(429, "slow down"), blame: resting, status: "429"},
	{name: "429 without a body", both: script{say("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")}, blame: resting, status: "429"},
	{name: "500", both: refusal(500, "the server had an error"), blame: counted, status: "500"},
	{name: "502", both: withBody(502, "<html><head><title>502 Bad Gateway</title></head></html>"), blame: counted, status: "502"},
	{name: "503", both: refusal(503, "overloaded", "Retry-After: 1"), blame: counted, status: "503"},
	{name: "504", both: withBody(504, ""), blame: counted, status: "504"},
	{name: "529", both: refusal(529, "overloaded_error"), blame: counted, status: "529"},
	{name: "500 whose body is cut", both: script{say("HTTP/1.1 500 Oh\r\nContent-Length: 1000\r\n\r\n{\"error\":"), hangUp}, blame: counted, status: "500"},
	{name: "500 whose body never ends", both: script{say("HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n"), repeat(part(longWord), 0)}, blame: counted, status: "500"},
	{name: "500 whose body stalls", limits: "first_byte: 0s, total: 0s", stream: script{say("HTTP/1.1 500 Oh\r\nContent-Length: 1000\r\n\r\n{\"error\":"), stall}, blame: counted, status: "500"},
	{name: "408", both: refusal(408, "request timeout"), blame: counted, status: "408"},
	{name: "404, the model was withdrawn", both: refusal(404, "The model `author/model` does not exist"), blame: counted, status: "404"},
	{name: "401", both: refusal(401, "Incorrect API key provided: "+primaryKey), blame: account, status: "401"},
	{name: "402, no credit", both: refusal(402, "Insufficient credits. Add more at the provider's page"), blame: alarmed, status: "402"},
	{name: "402 that asks for fewer max_tokens", both: refusal(402, "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 1234."), status: "402"},
	{name: "403", both: refusal(403, "Forbidden"), blame: alarmed, status: "403"},
	{name: "403 with moderation data", both: withBody(403, `{"error":{"code":403,"message":"the input was flagged","metadata":{"reasons":["violence"],"flagged_input":"count to twenty","provider_name":"Upstream","model_slug":"author/model"}}}`), status: "403"},
	{name: "400", both: refusal(400, "temperature is too hot"), status: "400"},
	{name: "413", both: refusal(413, "Request Entity Too Large"), status: "413"},
	{name: "422", both: withBody(422, `{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]}`), status: "422"},
	{name: "an image where there is no projector, as 500", both: refusal(500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"), status: "500"},
	{name: "output that the parser cannot read, as 500", both: refusal(500, "Failed to parse input at pos 12: <tool_call>"), status: "500"},
	{name: "bad JSON, as 500", both: refusal(500, "[json.exception.parse_error.101] parse error at line 1, column 8: syntax error"), status: "500"},
	{name: "204", both: script{say("HTTP/1.1 204 No Content\r\n\r\n")}, blame: counted, status: "204"},
	{name: "304", both: script{say("HTTP/1.1 304 Not Modified\r\n\r\n")}, blame: counted, status: "304"},
	{name: "101", both: script{say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), stall}, blame: counted, status: "101"},
}

func TestStatuses(t *testing.T) { t.Parallel(); run(t, statuses) }

// overflows are the wordings of engines and providers for a prompt that does not fit.
var overflows = []row{
	{name: "llama-server", both: withBody(400, `{"error":{"code":400,"message":"request (5021 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5021,"n_ctx":4096}}`), status: "400"},
	{name: "llama-server, older", both: withBody(500, `{"error":{"code":500,"message":"context size has been exceeded.","type":"server_error"}}`), status: "500"},
	{name: "vLLM", both: withBody(400, `{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5021 tokens in the messages. Please reduce the length of the messages.","type":"BadRequestError","param":null,"code":400}}`), status: "400"},
	{name: "vLLM, older", both: withBody(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5021 tokens (4821 in the messages, 200 in the completion).","type":"BadRequestError","param":null,"code":400}`), status: "400"},
	{name: "vLLM, max_tokens", both: withBody(400, `{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 21 input tokens (5000 > 4096 - 21).","type":"BadRequestError","param":"max_tokens","code":400}}`), status: "400"},
	{name: "SGLang", both: withBody(400, `{"object":"error","message":"The input (5021 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","param":null,"code":400}`), status: "400"},
	{name: "Ollama", both: withBody(400, `{"error":{"message":"the input length exceeds the context length","type":"invalid_request_error","param":null,"code":null}}`), status: "400"},
	{name: "TGI", both: withBody(422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5021 `inputs` tokens and 200 `max_new_tokens`\",\"error_type\":\"validation\"}"), status: "422"},
	{name: "LM Studio", both: withBody(400, `{"error":"Trying to keep the first 5021 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`), status: "400"},
	{name: "OpenAI", both: withBody(400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 150021 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`), status: "400"},
	{name: "OpenRouter", both: withBody(400, `{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 150021 tokens (150021 of text input). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.","code":400,"metadata":{"provider_name":null}}}`), status: "400"},
	{name: "Anthropic", both: withBody(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210021 tokens > 200000 maximum"}}`), status: "400"},
	{name: "Google", both: withBody(400, `[{"error":{"code":400,"message":"The input token count (1500021) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`), status: "400"},
}

func TestContextOverflow(t *testing.T) { t.Parallel(); run(t, overflows) }

// A redirect is not followed: it would carry the prompt to where the operator did not say.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(itoa(status), func(t *testing.T) {
			t.Parallel()
			trap := serve(t, well("from the trap"))
			run(t, []row{{name: "to another host", both: refusal(status, "moved", "Location: "+trap.url()+"/v1/chat/completions"), blame: counted, status: itoa(status)}})
			t.Cleanup(func() {
				if n := trap.bytes.Load(); n != 0 {
					t.Errorf("%d bytes went where the redirect pointed", n)
				}
			})
		})
	}
}
