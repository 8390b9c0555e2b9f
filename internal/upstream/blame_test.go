package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// judging is a way in which an attempt can fail.
type judging func(t *testing.T) Failure

// answered is an answer of a provider with a status.
func answered(status int, body string, header ...string) judging {
	return answer(false, status, body, header...)
}

// engine is an answer of a local engine.
func engineSays(status int, body string) judging { return answer(true, status, body) }

func answer(local bool, status int, body string, header ...string) judging {
	return func(t *testing.T) Failure {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		f := judgeStatus(status, dialect.ReadError(status, []byte(body)), h, local, now)
		if want := fmt.Sprint(status); f.Status != status || len(f.Message) < len(want) {
			t.Errorf("status %d, message %q", f.Status, f.Message)
		}
		return f
	}
}

// inside is an error in a stream that had begun with 200.
func inside(data string) judging {
	return func(t *testing.T) Failure {
		var s dialect.Stamp
		_, chunk, err := s.AppendChunk(nil, []byte(data))
		if err != nil || chunk.Err == nil {
			t.Fatalf("AppendChunk = %+v, %v; want an in-band error", chunk, err)
		}
		return judgeInBand(chunk.Err, false, now)
	}
}

// sent is an error of sending or reading.
func sent(err, cause error) judging {
	return func(*testing.T) Failure { return judgeSend(err, cause) }
}

func said(text string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"x","code":null}}`, text)
}

func coding(code string) string { return fmt.Sprintf(`{"error":{"message":"m","code":%q}}`, code) }

// blameLine is one line of the table of who is blamed: the cases, and what each of them means.
type blameLine struct {
	name  string
	want  Failure // of what matters: Blame, Context, Loading, Overloaded, RetryAfter
	cases map[string]judging
}

var blameLines = []blameLine{
	{"a fault of the endpoint counts to the three", Failure{Blame: hearth.BlameEndpoint}, map[string]judging{
		"connect error":                  sent(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, nil),
		"connect timeout":                sent(&net.OpError{Op: "dial", Err: timeout{errors.New("i/o timeout")}}, nil),
		"name does not resolve":          sent(&net.DNSError{Err: "no such host"}, nil),
		"TLS failure":                    sent(errors.New("tls: handshake failure"), nil),
		"no first token in time":         sent(context.Canceled, errFirstByte),
		"no answer in time":              sent(context.Canceled, errAnswer),
		"stall":                          sent(context.Canceled, errIdle),
		"total":                          sent(context.Canceled, errTotal),
		"broken stream":                  sent(io.ErrUnexpectedEOF, nil),
		"empty stream":                   func(*testing.T) Failure { return *failure(200, "the stream ended before its first token") },
		"answer past 64 MiB":             sent(errTooLarge, nil),
		"500":                            answered(500, said("boom")),
		"502 of a proxy":                 answered(502, "<html><title>502 Bad Gateway</title></html>"),
		"503":                            answered(503, said("overloaded")),
		"503 is no rate limit":           answered(503, "", "Retry-After", "7"),
		"503 loading elsewhere":          answered(503, said("Loading model")),
		"503 of an engine":               engineSays(503, said("server busy, please try again. maximum pending requests exceeded")),
		"504":                            answered(504, ""),
		"529 overloaded":                 answered(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		"408":                            answered(408, ""),
		"404 model withdrawn":            answered(404, said("no such model")),
		"404 no endpoints for the model": answered(404, said("No endpoints found for acme/gone.")),
		"400 model withdrawn":            answered(400, coding("model_decommissioned")),
		"405":                            answered(405, ""),
		"407 of the operator's proxy":    answered(407, ""),
		"410":                            answered(410, ""),
		"redirect":                       answered(307, "elsewhere"),
		"not modified":                   answered(304, ""),
		"switching protocols":            answered(101, ""),
		"401 of an engine":               engineSays(401, said("Invalid API Key")),
		"in-band server error":           inside(coding("server_error")),
		"in-band overload":               inside(`{"error":{"type":"overloaded_error","message":"Overloaded"}}`),
		"in-band code that is no status": inside(`{"error":{"code":1302,"message":"x"}}`),
		"in-band text":                   inside(`{"error":"x"}`),
		"in-band model withdrawn":        inside(coding("model_not_found")),
	}},
	{"402 and 403 count, and what they say is not told", Failure{Blame: hearth.BlameEndpoint}, map[string]judging{
		"402":                           answered(402, said("key 9f8e7d6c has no credits")),
		"403":                           answered(403, said("key 9f8e7d6c may not")),
		"403 that speaks of max_tokens": answered(403, said("fewer max_tokens")),
		"403 of a region":               answered(403, coding("unsupported_country_region_territory")),
		"in-band credit":                inside(coding("insufficient_credits")),
		"in-band permission":            inside(`{"error":{"type":"permission_error","message":"x"}}`),
	}},
	{"402 and 403 that are the request's fault", Failure{}, map[string]judging{
		"403 with moderation data":   answered(403, `{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"],"flagged_input":"…"}}}`),
		"403 with a moderation code": answered(403, coding("content_policy_violation")),
		"402 wants fewer max_tokens": answered(402, said("This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 12")),
		"in-band moderation":         inside(coding("content_filter")),
		"in-band code of Qwen":       inside(coding("data_inspection_failed")),
	}},
	{"401 takes the account out", Failure{Blame: hearth.BlameAccount}, map[string]judging{
		"401":         answered(401, said("Incorrect API key provided: 9f8e7d6c")),
		"in-band":     inside(`{"error":{"code":401,"message":"key abc"}}`),
		"in a word":   inside(coding("invalid_api_key")),
		"Anthropic's": inside(`{"type":"error","error":{"type":"authentication_error","message":"x"}}`),
	}},
	{"429 takes the endpoint out for its own time", Failure{Blame: hearth.BlameRateLimit, RetryAfter: 7 * time.Second}, map[string]judging{
		"seconds":      answered(429, said("slow down"), "Retry-After", "7"),
		"date":         answered(429, "", "Retry-After", "Sun, 01 Mar 2026 12:00:07 GMT"),
		"milliseconds": answered(429, "", "Retry-After-Ms", "7000"),
		"reset":        answered(429, "", "X-Ratelimit-Reset-Requests", "7s"),
		"Anthropic's":  answered(429, "", "Anthropic-Ratelimit-Tokens-Reset", "2026-03-01T12:00:07Z"),
	}},
	{"429 without a time", Failure{Blame: hearth.BlameRateLimit}, map[string]judging{
		"of a provider":                    answered(429, ""),
		"of an engine":                     engineSays(429, ""),
		"that speaks of the prompt's size": answered(429, said("Request too large: reduce the length of the messages")),
		"in-band number":                   inside(`{"error":{"code":429,"message":"slow"}}`),
		"in-band word":                     inside(coding("rate_limit_exceeded")),
		"in-band quota, a 429 at OpenAI":   inside(coding("insufficient_quota")),
		"in-band word of Anthropic":        inside(`{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`),
		"in-band word of Google":           inside(`{"error":{"status":"RESOURCE_EXHAUSTED","message":"x"}}`),
	}},
	{"a fault of the request blames nobody", Failure{}, map[string]judging{
		"400":              answered(400, said("bad")),
		"400 of Ollama":    engineSays(400, `{"error":"invalid message"}`),
		"409":              answered(409, ""),
		"413":              answered(413, ""),
		"413 of Anthropic": answered(413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`),
		"422":              answered(422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`),
		"words accuse nobody, a caller may have put them there": answered(400, said("model_not_found invalid_api_key")),
		"451":                           answered(451, ""),
		"404 for what the request asks": answered(404, said("No endpoints found that support image input")),
		"500 no image projector":        engineSays(500, said("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj")),
		"500 no audio":                  engineSays(500, said("audio input is not supported")),
		"500 bad JSON":                  engineSays(500, said("[json.exception.parse_error.101] parse error at line 1")),
		"500 output parser":             engineSays(500, said("Failed to parse input at pos 7")),
		"500 no parser for the tools":   engineSays(500, said("Unable to generate parser for this template")),
		"500 the template refuses":      engineSays(500, said("Jinja Exception: Conversation roles must alternate user/assistant")),
		"in-band 400":                   inside(`{"error":{"code":400,"message":"bad"}}`),
		"in-band word":                  inside(`{"error":{"type":"invalid_request_error","message":"bad"}}`),
	}},
	{"an engine that still loads blames nobody", Failure{Loading: true}, map[string]judging{
		"llama-server": engineSays(503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`),
		"TabbyAPI":     engineSays(503, `{"detail":"No models are currently loaded."}`),
	}},
	{"no memory for the answer blames nobody", Failure{Overloaded: true}, map[string]judging{
		"": sent(errMemory, nil),
	}},
}

func TestWhoIsBlamed(t *testing.T) {
	for _, line := range append(blameLines, blameLine{"what does not fit the window blames nobody, and is known for it", Failure{Context: true}, overflowCases}) {
		for name, judge := range line.cases {
			t.Run(line.name+"/"+name, func(t *testing.T) {
				got := judge(t)
				weighed := Failure{Blame: got.Blame, Context: got.Context, Loading: got.Loading, Overloaded: got.Overloaded, RetryAfter: got.RetryAfter}
				if d := cmp.Diff(line.want, weighed); d != "" {
					t.Errorf("%+v:\n%s", got, d)
				}
				if got.Message == "" {
					t.Error("it says nothing")
				}
				if silent := got.Status == 401 || (got.Status == 402 || got.Status == 403) && got.Blame == hearth.BlameEndpoint; silent && got.Raw+got.Param != "" {
					t.Errorf("the upstream's words %q %q are told: they may quote our key", got.Raw, got.Param)
				}
			})
		}
	}
}

// overflowCases are the wordings of a prompt, or an output cap, that does not fit.
var overflowCases = map[string]judging{
	"llama-server":                engineSays(400, `{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`),
	"llama-server, by type alone": engineSays(400, `{"error":{"code":400,"message":"no","type":"exceed_context_size_error"}}`),
	"llama-server, 500":           engineSays(500, said("Context size has been exceeded.")),
	"llama-server, 500, batch":    engineSays(500, said("input is too large to process. increase the physical batch size")),
	"llama-server, in the stream": inside(`{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`),
	"vLLM":                        engineSays(400, `{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 512 output tokens and your prompt contains at least 3585 input tokens, for a total of at least 4097 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=3585)","type":"BadRequestError","param":"input_tokens","code":400}}`),
	"vLLM, the other":             engineSays(400, `{"error":{"message":"You passed 4097 input tokens and requested 512 output tokens. However, the model's context length is only 4096 tokens","type":"BadRequestError","param":"input_tokens","code":400}}`),
	"vLLM, older":                 engineSays(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`),
	"vLLM, the cap alone":         engineSays(400, `{"error":{"message":"max_tokens=400000 cannot be greater than max_model_len=max_total_tokens=204800. Please request fewer output tokens.","type":"BadRequestError","param":"max_tokens","code":400}}`),
	"vLLM, the prompt alone":      engineSays(400, said("The decoder prompt (length 5000) is longer than the maximum model length of 4096.")),
	"SGLang, flat":                engineSays(400, `{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","param":null,"code":400}`),
	"SGLang, with the output":     engineSays(400, `{"object":"error","message":"Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 9000 tokens","type":"BadRequest","param":null,"code":400}`),
	"TabbyAPI":                    engineSays(400, `{"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Prompt is bigger"}}`),
	"TabbyAPI, older":             engineSays(400, `{"detail":"Prompt length 9000 is greater than max_seq_len 4096"}`),
	"Ollama":                      engineSays(400, `{"error":"the input length exceeds the context length"}`),
	"Ollama's cloud":              engineSays(400, `{"error":"prompt too long; exceeded max context length by 400 tokens"}`),
	"LM Studio":                   engineSays(400, `{"error":"Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`),
	"LM Studio, the other":        engineSays(400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}`),
	"TensorRT-LLM":                engineSays(400, said("Prompt length (9000) exceeds maximum input length (4096). Set max_num_tokens")),
	"text-generation-inference":   engineSays(422, `{"error":"Input validation error: `+"`inputs` tokens + `max_new_tokens`"+` must be <= 4096. Given: 9000 inputs tokens","error_type":"validation"}`),
	"OpenAI":                      answered(400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`),
	"OpenAI, by code alone":       answered(400, coding("context_length_exceeded")),
	"OpenAI, newer":               answered(400, said("Your input exceeds the context window of this model. Please adjust your input and try again.")),
	"OpenAI, in the stream":       inside(coding("context_length_exceeded")),
	"OpenAI, configured":          answered(400, said("Input tokens exceed the configured limit of 272000 tokens.")),
	"Anthropic":                   answered(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}`),
	"Anthropic, with the output":  answered(400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and `+"`max_tokens`"+` exceed context limit: 188240 + 21333 > 200000"}}`),
	"Mistral":                     answered(400, `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}`),
	"DeepSeek":                    answered(400, `{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion).","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`),
	"Gemini":                      answered(400, `[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]`),
	"xAI":                         answered(400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`),
	"Groq":                        answered(400, said("Please reduce the length of the messages or completion.")),
	"Groq, 413":                   answered(413, coding("context_length_exceeded")),
	"OpenRouter":                  answered(400, `{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"This endpoint's maximum context length is 32768 tokens.\"}}","provider_name":"x"}}}`),
	"Bedrock":                     answered(400, said("Input is too long for requested model.")),
	"Moonshot":                    answered(400, said("Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)")),
	"Qwen":                        answered(400, said("Range of input length should be [1, 30720]")),
	"MiniMax":                     answered(400, said("invalid params, context window exceeds limit")),
	"Z.ai":                        answered(400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`),
	"GitHub":                      answered(400, coding("model_max_prompt_tokens_exceeded")),
}
