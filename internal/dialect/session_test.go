package dialect

import (
	"strings"
	"testing"
)

func TestChat_Session(t *testing.T) {
	long := strings.Repeat("x", maxSession+1)
	for name, c := range map[string]struct{ fields, header, want string }{
		"none":                            {``, "", ""},
		"session_id first":                {`"session_id":"a","prompt_cache_key":"b",`, "h", "a"},
		"with an escape":                  {`"session_id":"a\u0062",`, "", "ab"},
		"the header before the cache key": {`"prompt_cache_key":"b",`, "h", "h"},
		"the cache key":                   {`"prompt_cache_key":"b",`, "", "b"},
		"null":                            {`"session_id":null,"prompt_cache_key":null,`, "", ""},
		"not a string":                    {`"session_id":{"a":1},"prompt_cache_key":7,`, "", ""},
		"a session_id that is too long":   {`"session_id":"` + long + `","prompt_cache_key":"b",`, "", "b"},
		"a header that is too long":       {``, long, ""},
		"as many characters as may be, of three bytes": {`"session_id":"` + strings.Repeat("가", maxSession) + `",`, "", strings.Repeat("가", maxSession)},
		"as many characters, of two escapes each":      {`"session_id":"` + strings.Repeat(`\ud83d\ude00`, maxSession) + `",`, "", strings.Repeat("😀", maxSession)},
		"a session_id that is one character too long":  {`"session_id":"` + strings.Repeat("가", maxSession+1) + `",`, "h", "h"},
		"a header of as many characters as may be":     {``, strings.Repeat("가", maxSession), strings.Repeat("가", maxSession)},
		"as long as may be, all of it escaped":         {`"session_id":"` + strings.Repeat(`\u0061`, maxSession) + `",`, "", strings.Repeat("a", maxSession)},
	} {
		t.Run(name, func(t *testing.T) {
			chat, err := DecodeChat([]byte(`{`+c.fields+`"model":"m","messages":[{"role":"user","content":"x"}]}`), func(b []byte) int { return len(b) })
			if err != nil {
				t.Fatal(err)
			}
			if got := chat.Session(c.header); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if bad := strings.Contains(name, "session_id that") || name == "not a string"; bad != (len(chat.Notes) > 0) {
				t.Errorf("notes %q", chat.Notes)
			}
			if strings.Contains(c.fields, "prompt_cache_key") != strings.Contains(string(chat.AppendForward(nil, Target{Model: "u"})), "prompt_cache_key") {
				t.Error("the upstream gets the session's name, or not its own key")
			}
		})
	}
}

func TestChat_Opening(t *testing.T) {
	const system, developer, user, answer = `{"role":"system","content":"s"}`, `{"content":"d","role":"developer"}`, `{"role":"user","content":"u"}`, `{"role":"assistant","content":"a"}`
	for _, c := range []struct{ messages, want string }{
		{user, user},
		{system + "," + user + "," + answer + "," + user, system + "," + user},
		{system + " , " + developer + "," + user + "," + user, system + " , " + developer + "," + user},
		{answer + "," + user, answer},
		{system, ""},
		{system + "," + developer, ""},
	} {
		chat, err := DecodeChat([]byte(`{"model":"m","messages":[`+c.messages+`],"x":1}`), func(b []byte) int { return len(b) })
		if err != nil {
			t.Fatal(err)
		}
		if got := string(chat.Opening()); got != c.want {
			t.Errorf("%s: %q, want %q", c.messages, got, c.want)
		}
	}
}
