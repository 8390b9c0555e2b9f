package chain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

type emptyCase struct {
	name  string
	req   hearth.Request
	given func(*scene)

	want  hearth.ErrorType
	code  int
	param string
	retry time.Duration
	says  []string // in the message, in this order
}

// The section "Empty chain": the stage that empties it names the error.
var emptyCases = []emptyCase{
	{name: "an unknown single model", req: ask("google/gema-4-26b-a4b"), want: hearth.ErrModelNotFound, code: 404, param: "model",
		says: []string{`there is no model "google/gema-4-26b-a4b"`, "did you mean google/gemma-4-26b-a4b?"}},
	{name: "a single model nothing is like", req: ask("openrouter/auto"), want: hearth.ErrModelNotFound, code: 404, param: "model", says: []string{"GET /api/v1/models lists the models"}},
	{name: "a suffix that is none", req: ask(gemma + ":online"), want: hearth.ErrModelNotFound, code: 404, param: "model", says: []string{"did you mean " + gemma}},
	{name: "a suffix of an id without an entry", req: ask(gemma + ":free"), want: hearth.ErrModelNotFound, code: 404, param: "model"},
	{name: "only suffixes", req: ask(":nitro:floor"), want: hearth.ErrModelNotFound, code: 404, param: "model"},
	{name: "a hostile model name", req: ask(strings.Repeat("\x1b[31m\r\n", 1<<16)), want: hearth.ErrModelNotFound, code: 404, param: "model",
		says: []string{`there is no model "` + strings.Repeat("?[31m??", 9) + `?…"`}},
	{name: "an alias suggests itself", req: ask("gpt-4o-mni"), want: hearth.ErrModelNotFound, code: 404, param: "model", says: []string{"did you mean gpt-4o-mini?"}},
	{name: "no model at all", req: hearth.Request{}, given: func(s *scene) { s.Views.Catalog.DefaultModel = "" }, want: hearth.ErrInvalidRequest, code: 400, param: "model"},
	{name: "a list of unknown models", req: ask("a/b", "lgai/exaone"), want: hearth.ErrNoEndpoints, code: 404, says: []string{"a/b (no such model), lgai/exaone (no such model)", "did you mean lgai/exaone-4.0-32b?"}},
	{name: "a list of one unknown model", req: hearth.Request{Models: []string{"a/b"}, FromList: true}, want: hearth.ErrNoEndpoints, code: 404, says: []string{"a/b (no such model)"}},
	{name: "a model without endpoints", req: ask(exaone), given: without(localExaone), want: hearth.ErrNoEndpoints, code: 404, says: []string{"the model has no endpoints"}},

	{name: "a key that may not use the model", req: ask(exaone), given: key(hearth.Key{Models: []string{gemma}}), want: hearth.ErrNotAllowed, code: 403,
		says: []string{"the key may use no endpoint", "local-gpu/gpu-1:" + exaone + " (the key may not use this model)"}},
	{name: "a local-only key", req: ask(other), given: key(hearth.Key{LocalOnly: true}), want: hearth.ErrNotAllowed, code: 403, says: []string{"acme:acme/other (the key is for own machines only)"}},
	{name: "a key and unknown models", req: ask("no/such", other), given: key(hearth.Key{Providers: []string{"beta"}}), want: hearth.ErrNotAllowed, code: 403,
		says: []string{"no/such (no such model), acme:acme/other (the key may not use this provider)"}},
	{name: "a key does not tell of unknown models", req: ask("no/such"), given: key(hearth.Key{Models: []string{gemma}}), want: hearth.ErrModelNotFound, code: 404, param: "model"},

	{name: "conditions nothing meets", req: with(ask(exaone), hearth.Preferences{Ignore: []string{"local-gpu"}}), want: hearth.ErrNoEndpoints, code: 404,
		says: []string{"local-gpu/gpu-1:" + exaone + " (in provider.ignore)"}},
	{name: "seed: a disabled mapping with only local-gpu", req: with(ask(gemma), hearth.Preferences{Only: []string{"local-gpu"}}), given: func(s *scene) { s.at(localGemma).Disabled = true },
		want: hearth.ErrNoEndpoints, code: 404, says: []string{"(the endpoint is disabled)", "(not in provider.only)"}},
	{name: "a name that means nobody", req: with(ask(gemma), hearth.Preferences{Only: []string{"acmee"}}), want: hearth.ErrNoEndpoints, code: 404,
		says: []string{`; provider.only: there is no provider "acmee", did you mean acme?`}},
	{name: "conditions beat the key", req: with(ask(gemma), hearth.Preferences{Ignore: []string{"local-gpu"}}), given: key(hearth.Key{LocalOnly: true}), want: hearth.ErrNoEndpoints, code: 404,
		says: []string{"(in provider.ignore)", "(the key is for own machines only)"}},
	{name: "max_price below every price", req: with(ask(gemma), hearth.Preferences{MaxPrice: hearth.MaxPrice{Prompt: null("1")}}), want: hearth.ErrNoEndpoints, code: 404,
		says: []string{"costs 30 KRW per 1M prompt tokens, more than provider.max_price.prompt"}},

	{name: "a prompt past every window", req: hearth.Request{Models: []string{gemma}, Estimate: 140000}, want: hearth.ErrContextLength, code: 400, param: "messages",
		says: []string{"the prompt is estimated at 140000 tokens and the largest context window that may serve it holds 131072", "prompt estimated at 140000 tokens, window 32768"}},
	{name: "the largest window that may serve it", req: with(hearth.Request{Models: []string{gemma}, Estimate: 140000}, hearth.Preferences{Only: []string{"local-gpu"}}), want: hearth.ErrContextLength, code: 400, param: "messages",
		says: []string{"140000 tokens and the largest context window that may serve it holds 32768"}},
	{name: "images are in the estimate", req: hearth.Request{Models: []string{exaone}, Estimate: 1, Images: 8}, want: hearth.ErrContextLength, code: 400, param: "messages", says: []string{"estimated at 32769 tokens"}},
	{name: "an exact count is no estimate", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1}, hearth.Preferences{Only: []string{"local-gpu"}}), given: exact(33000), want: hearth.ErrContextLength, code: 400, param: "messages",
		says: []string{"the prompt has 33000 tokens"}},
	{name: "a prompt that an engine might cut", req: with(hearth.Request{Models: []string{gemma}, Estimate: 24577, Bytes: 32769}, hearth.Preferences{Only: []string{"local-gpu"}}), given: engineOf("ollama"),
		want: hearth.ErrContextLength, code: 400, param: "messages", says: []string{"estimated at 32769 tokens and the largest context window that may serve it holds 32768"}},
	{name: "tools nobody takes", req: hearth.Request{Models: []string{exaone}, Tools: true}, given: func(s *scene) { s.at(localExaone).Params = noToolParams }, want: hearth.ErrUnsupported, code: 400, param: "tools",
		says: []string{"no endpoint that may serve this request takes tools", "(does not take tools)"}},
	{name: "a response format nobody takes", req: hearth.Request{Models: []string{exaone}, Params: hearth.ParamResponseFormat}, given: func(s *scene) { s.at(localExaone).Params = noToolParams }, want: hearth.ErrUnsupported, code: 400, param: "response_format"},
	{name: "media nobody takes", req: hearth.Request{Models: []string{exaone}, Media: []string{"image", "audio"}}, given: func(s *scene) { s.at(localExaone).Input = []string{"text", "image"} }, want: hearth.ErrUnsupported, code: 400, param: "messages",
		says: []string{"takes image and audio input", "(does not take audio input)"}},
	{name: "web addresses with own engines only", req: hearth.Request{Models: []string{exaone}, Media: []string{"image"}, MediaURLs: 1}, want: hearth.ErrUnsupported, code: 400, param: "messages", says: []string{"send it as data URLs"}},
	{name: "more output than anybody gives", req: hearth.Request{Models: []string{other}, MaxTokens: 9000}, given: func(s *scene) { s.at(acmeOther).MaxOutput = 8192 }, want: hearth.ErrUnsupported, code: 400, param: "max_tokens", says: []string{"max_tokens over 8192"}},
	{name: "several things are lacking", req: hearth.Request{Models: []string{exaone, other}, FromList: true, Tools: true, MaxTokens: 9000}, given: func(s *scene) { s.at(localExaone).Params = noToolParams; s.at(acmeOther).MaxOutput = 8192 },
		want: hearth.ErrUnsupported, code: 400, param: "tools", says: []string{"takes tools, max_tokens over 8192"}},
	{name: "a shorter prompt could be served", req: hearth.Request{Models: []string{exaone, other}, FromList: true, Estimate: 40000, MaxTokens: 9000}, given: func(s *scene) { s.at(acmeOther).MaxOutput = 8192 }, want: hearth.ErrContextLength, code: 400, param: "messages",
		says: []string{"holds 32768", "gives at most 8192 tokens"}},

	{name: "everything in cooldown", req: ask(gemma), given: func(s *scene) {
		s.out(hearth.SkipCooldown, 41500*time.Millisecond, localGemma, acmeGemma, betaGemma)
	}, want: hearth.ErrCoolingDown, code: 503, retry: 41500 * time.Millisecond, says: []string{"cooling down after failures; retry in 42s"}},
	{name: "Retry-After is the earliest end", req: ask(gemma), given: func(s *scene) {
		s.out(hearth.SkipCooldown, 40*time.Second, localGemma)
		s.out(hearth.SkipCooldown, 25*time.Second, acmeGemma)
		s.out(hearth.SkipRateLimited, 30*time.Second, betaGemma)
	}, want: hearth.ErrCoolingDown, code: 503, retry: 25 * time.Second, says: []string{"cooling down", "back in 40s", "back in 25s", "back in 30s"}},
	{name: "at least a second", req: ask(exaone), given: func(s *scene) { s.out(hearth.SkipRateLimited, time.Millisecond, localExaone) }, want: hearth.ErrCoolingDown, code: 503, retry: time.Second},
	{name: "the last stage names the error", req: with(hearth.Request{Models: []string{gemma}, Estimate: 40000}, hearth.Preferences{Ignore: []string{"beta"}}), given: func(s *scene) { s.out(hearth.SkipRateLimited, 3*time.Second, acmeGemma) },
		want: hearth.ErrCoolingDown, code: 503, retry: 3 * time.Second, says: []string{"rate limited by its provider; retry in 3s", "prompt estimated at 40000", "rate limited by the provider", "in provider.ignore"}},

	{name: "nothing that can be paid", req: hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 1000}, given: credits(41_000_000), want: hearth.ErrInsufficientCredits, code: 402,
		says: []string{"the key has 0.041 KRW left and the request could cost up to 0.0417; lower max_tokens", "(could cost up to 0.18, more than what the key has left)"}},
	{name: "an overspent key has nothing left", req: ask(exaone), given: credits(-7), want: hearth.ErrInsufficientCredits, code: 402, says: []string{"the key has 0 KRW left"}},
	{name: "money is the last stage", req: ask(gemma), given: func(s *scene) { credits(0)(s); s.cool(acmeGemma, betaGemma) }, want: hearth.ErrInsufficientCredits, code: 402, says: []string{"the key has 0 KRW left", "cooling down"}},
}

func TestBuildEmpty(t *testing.T) {
	for _, tc := range emptyCases {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			if tc.given != nil {
				tc.given(s)
			}
			c, err := Build(s.input(t, &tc.req))
			if err == nil {
				t.Fatalf("chain %v, want an error", lines(c.Candidates))
			}
			if err.Type != tc.want || err.HTTPStatus() != tc.code || err.Param != tc.param || err.RetryAfter != tc.retry {
				t.Errorf("got %d %s, param %q, retry %s; want %d %s, %q, %s", err.HTTPStatus(), err.Type, err.Param, err.RetryAfter, tc.code, tc.want, tc.param, tc.retry)
			}
			rest := err.Message
			for _, w := range tc.says {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("%q does not say %q, or not in this order", err.Message, w)
				}
				rest = after
			}
			if len(c.Candidates) > 0 {
				t.Errorf("an error and candidates %v", lines(c.Candidates))
			}
			if d := cmp.Diff(c.Drops, err.Drops); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tc.req.Models, err.Requested); tc.want != hearth.ErrInvalidRequest && d != "" {
				t.Error(d)
			}
		})
	}
}

// The message names eight drops, error.metadata.dropped holds all of them.
func TestBuildEmpty_MessageIsBounded(t *testing.T) {
	s := newScene()
	req := hearth.Request{FromList: true}
	for i := range 1000 {
		req.Models = append(req.Models, fmt.Sprintf("no/such-%d", i))
	}
	c, err := Build(s.input(t, &req))
	if err == nil || len(err.Drops) != 1000 || !strings.Contains(err.Message, "no/such-7 (no such model), and 992 more") {
		t.Errorf("%d drops, %v", len(err.Drops), err)
	}
	if len(c.Notes) != maxNotes+1 || c.Notes[maxNotes] != "there is more to say than fits here" {
		t.Errorf("notes %q", c.Notes)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"google/gemma": "google/gemma", "젬마": "젬마", "a\x00b\nc\xff": "a?b?c?",
		strings.Repeat("가", 65): strings.Repeat("가", 64) + "…", strings.Repeat("가", 64): strings.Repeat("가", 64),
	} {
		if got := clean(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
