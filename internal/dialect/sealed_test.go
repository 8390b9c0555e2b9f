package dialect

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func everything(int) bool { return true }

// withHistory is a request whose one answer of the history has these members.
func withHistory(members string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant",` + members + `},{"role":"user","content":"on"}],"top_p":0.5}`
}

func sealedChat(t testing.TB, body string) *Chat {
	t.Helper()
	c, err := DecodeChat([]byte(body), func(b []byte) int { return len(b) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestForward_Sealed: what only its maker can use is left out for others, and nothing else is.
func TestForward_Sealed(t *testing.T) {
	for _, c := range []struct {
		name, have, want string
		parts            int
	}{
		{"encrypted alone", `"reasoning_details":[{"type":"reasoning.encrypted","data":"AAA=","index":0}],"content":"x"`, `"reasoning_details":[],"content":"x"`, 1},
		{"encrypted first", `"reasoning_details":[ {"type":"reasoning.encrypted","data":"A"} , {"type":"reasoning.summary","summary":"s"} ]`, `"reasoning_details":[  {"type":"reasoning.summary","summary":"s"} ]`, 1},
		{"encrypted in the middle", `"reasoning_details":[{"a":1},{"data":"A","type":"reasoning.encrypted"},{"b":2}]`, `"reasoning_details":[{"a":1},{"b":2}]`, 1},
		{"encrypted last", "\"reasoning_details\":[{\"a\":1}\n,\t{\"type\":\"reasoning.encrypted\",\"data\":\"A\"} ]", "\"reasoning_details\":[{\"a\":1}\n ]", 1},
		{"all of several", `"reasoning_details":[{"type":"reasoning.encrypted","data":"A"}, {"type":"reasoning.encrypted","data":"B"},{"type":"reasoning.encrypted","data":"B"}]`, `"reasoning_details":[ ]`, 3},
		{"the last two", `"reasoning_details":[{},{"type":"reasoning.encrypted","data":"A"}, {"type":"reasoning.encrypted","data":"B"}]`, `"reasoning_details":[{}]`, 2},
		{"a text keeps its words", `"reasoning_details":[{"type":"reasoning.text","text":"so","signature":"S","index":0}]`, `"reasoning_details":[{"type":"reasoning.text","text":"so","index":0}]`, 1},
		{"the signature last", `"reasoning_details":[{"type":"reasoning.text","text":"so" , "signature":"S" }]`, `"reasoning_details":[{"type":"reasoning.text","text":"so"  }]`, 1},
		{"the signature first", `"reasoning_details":[{"signature" : "S", "text":"so"}]`, `"reasoning_details":[{ "text":"so"}]`, 1},
		{"a signature alone", `"reasoning_details":[{"type":"reasoning.text","text":"","signature":"S"},{}]`, `"reasoning_details":[{}]`, 1},
		{"escaped", `"reasoning_details":[{"type":"reasoning\u002eencrypted","data":"a\"],[{\\"}]`, `"reasoning_details":[]`, 1},
		{"empty ones are none", `"reasoning_details":[{"type":"reasoning.encrypted","data":""},{"signature":null,"text":"data"},{"type":"x","data":"A"}]`, "", 0},
		{"junk", `"reasoning_details":[1,null,[{"type":"reasoning.encrypted","data":"A"}],{"x":{"type":"reasoning.encrypted","data":"A"}},"\"signature\""]`, "", 0},
		{"no list", `"reasoning_details":{"type":"reasoning.encrypted","data":"A"}`, "", 0},
		{"blocks", `"thinking_blocks":[{"type":"thinking","thinking":"so","signature":"S"},{"type":"redacted_thinking","data":"A"}],"content":null`, `"thinking_blocks":[],"content":null`, 2},
		{"parts", `"content":[{"type":"thinking","thinking":"so","signature":"S"},{"type":"text","text":"x","signature":"not ours"},{"type":"redacted_thinking","data":"A"}]`, `"content":[{"type":"text","text":"x","signature":"not ours"}]`, 2},
		{"no part is left", `"content": [ {"type":"redacted_thinking","data":"A"} ]`, `"content": ""`, 1},
		{"thoughts without a seal", `"content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]}]`, "", 0},
		{"calls", `"tool_calls":[{"id":"a","extra_content":{"google":{"thought_signature":"S"}},"function":{"name":"f","arguments":"{\"thought_signature\":1}"}},{"id":"b"}]`,
			`"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"thought_signature\":1}"}},{"id":"b"}]`, 1},
		{"calls without", `"tool_calls":[{"id":"a","extra_content":{"x":"thought_signature","thought_signature":7}}]`, "", 0},
		{"two lists", `"reasoning_details":[{"type":"reasoning.encrypted","data":"A"}],"content":[{"type":"text","text":"x"},{"type":"redacted_thinking","data":"A"}]`,
			`"reasoning_details":[],"content":[{"type":"text","text":"x"}]`, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, want := withHistory(c.have), withHistory(c.want)
			if c.parts == 0 {
				want = body
			}
			chat := sealedChat(t, body)
			if n := len(chat.Seals(maphash.MakeSeed())); n != c.parts {
				t.Fatalf("%d sealed parts, want %d", n, c.parts)
			}
			if d := cmp.Diff(want, string(chat.AppendForward(nil, Target{Model: "m", Foreign: everything}))); d != "" {
				t.Error(d)
			}
			for name, foreign := range map[string]func(int) bool{"nobody asks": nil, "none is foreign": func(int) bool { return false }} {
				if d := cmp.Diff(body, string(chat.AppendForward(nil, Target{Model: "m", Foreign: foreign}))); d != "" {
					t.Error(name, d)
				}
			}
		})
	}
}

// TestForward_SealedMedia: media are put in beside what is left out, and not inside of it.
func TestForward_SealedMedia(t *testing.T) {
	const pic, lost = "https://a.example/1.png", "https://a.example/2.png"
	part := func(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }
	chat := sealedChat(t, withHistory(`"content":[{"type":"thinking","signature":"S","image_url":{"url":"`+lost+`"}},`+part(pic)+`,{"type":"redacted_thinking","data":"A"}]`))
	chat.Seals(maphash.MakeSeed())
	got := string(chat.AppendForward(nil, Target{Model: "m", Foreign: everything, Media: map[string]string{pic: "data:image/png;base64,AA", lost: "data:image/png;base64,BB"}}))
	if d := cmp.Diff(withHistory(`"content":[`+part("data:image/png;base64,AA")+`]`), got); d != "" {
		t.Error(d)
	}
}

// TestSeals_Match: a part has the same mark in the answer that it came in, whole or streamed, and in the history.
func TestSeals_Match(t *testing.T) {
	seed := maphash.MakeSeed()
	const blob = `gAAA\/\u003d+`
	for name, members := range map[string]string{
		"encrypted": `"reasoning_details":[{"type":"reasoning.encrypted","data":"` + blob + `"}]`,
		"signature": `"reasoning_details":[{"type":"reasoning.text","signature":"` + blob + `"}]`,
		"blocks":    `"thinking_blocks":[{"type":"thinking","thinking":"so","signature":"` + blob + `"}]`,
		"calls":     `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"` + blob + `"}}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			plain := strings.ReplaceAll(strings.ReplaceAll(members, `\/`, "/"), `\u003d`, "=")
			want := []uint64{maphash.String(seed, "gAAA/=+")}
			if d := cmp.Diff(want, sealedChat(t, withHistory(plain)).Seals(seed)); d != "" {
				t.Error("history", d)
			}
			s := Stamp{Seed: seed}
			if _, _, err := s.AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":{`+members+`}}]}`)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, s.Seals()); d != "" {
				t.Error("stream", d)
			}
			a, err := (&Stamp{Seed: seed}).ReadAnswer([]byte(`{"choices":[{"message":{` + members + `}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, a.Seals); d != "" {
				t.Error("answer", d)
			}
			if a, err := ReadAnswer([]byte(`{"choices":[{"message":{` + members + `}}]}`)); err != nil || a.Seals != nil {
				t.Error("nobody asked", a.Seals, err)
			}
		})
	}
}

// TestSeals_Bounded: what is beyond the bounds is passed on as it is.
func TestSeals_Bounded(t *testing.T) {
	entry := func(i int) string { return fmt.Sprintf(`{"type":"reasoning.encrypted","data":"%d"}`, i) }
	var all []string
	for i := range 10_000 {
		all = append(all, entry(i))
	}
	list := strings.Join(all, ",")
	chat := sealedChat(t, withHistory(`"reasoning_details":[`+list+`]`))
	if n := len(chat.Seals(maphash.MakeSeed())); n != maxSealed {
		t.Errorf("%d parts, want %d", n, maxSealed)
	}
	want := withHistory(`"reasoning_details":[` + strings.Join(all[maxSealed:], ",") + `]`)
	if string(chat.AppendForward(nil, Target{Model: "m", Foreign: everything})) != want {
		t.Error("not the first were left out, or more than they")
	}
	chat = sealedChat(t, `{"model":"m","messages":[`+strings.TrimSuffix(strings.Repeat(`{"role":"assistant","reasoning_details":[`+entry(1)+`]},`, 10_000), ",")+`]}`)
	if n := len(chat.Seals(maphash.MakeSeed())); n != maxSealed {
		t.Errorf("%d parts in as many messages, want %d", n, maxSealed)
	}
	s := Stamp{Seed: maphash.MakeSeed()}
	for range 3 {
		if _, _, err := s.AppendChunk(nil, []byte(`{"choices":[{"delta":{"reasoning_details":[`+list+`]}}]}`)); err != nil || len(s.Seals()) != maxSeals {
			t.Fatalf("%d parts of an answer, want %d; %v", len(s.Seals()), maxSeals, err)
		}
	}
}

// anyValue draws JSON text, also such as stands in sealed parts.
func anyValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		blank := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
		kinds := 4
		if depth == 0 {
			kinds = 2
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{`1`, `null`, `true`, `""`, `"a"`, `"}],"`, `"\"data\""`, `"\\"`}).Draw(t, "plain")
		case 1:
			return rapid.SampledFrom([]string{`"reasoning.encrypted"`, `"thinking"`, `"redacted_thinking"`, `"text"`, `"reasoning.text"`}).Draw(t, "word")
		case 2:
			var list []string
			for range rapid.IntRange(0, 4).Draw(t, "elements") {
				list = append(list, blank.Draw(t, "blank")+anyValue(depth-1).Draw(t, "element")+blank.Draw(t, "blank"))
			}
			return "[" + strings.Join(list, ",") + "]"
		}
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			key := rapid.SampledFrom([]string{"type", "type", "data", "data", "signature", "signature", "text", "thinking", "extra_content", "thought_signature"}).Draw(t, "key")
			members = append(members, blank.Draw(t, "blank")+`"`+key+`"`+blank.Draw(t, "blank")+":"+blank.Draw(t, "blank")+anyValue(depth-1).Draw(t, "member")+blank.Draw(t, "blank"))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

// TestForward_SealedProperty: whatever the history holds and whichever parts are left out, the body stays JSON, and what was
// not left out is found again.
func TestForward_SealedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := maphash.MakeSeed()
		var members []string
		for _, key := range rapid.Permutation([]string{"reasoning_details", "thinking_blocks", "tool_calls", "other"}).Draw(t, "keys") {
			members = append(members, `"`+key+`":`+anyValue(4).Draw(t, key))
		}
		chat, err := DecodeChat([]byte(withHistory(strings.Join(members, ","))), func([]byte) int { return 0 })
		if err != nil {
			t.Skip(err)
		}
		marks := chat.Seals(seed)
		foreign := rapid.SliceOfN(rapid.Bool(), len(marks), len(marks)).Draw(t, "foreign")
		out := chat.AppendForward(nil, Target{Model: "m", Foreign: func(i int) bool { return foreign[i] }})
		if !jsontext.Value(out).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("not JSON:\n%s\nof\n%s", out, chat.raw)
		}
		again, err := DecodeChat(out, func([]byte) int { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		if len(marks) == 0 || !slices.Contains(foreign, true) {
			if string(out) != string(chat.raw) {
				t.Fatalf("changed for nothing:\n%s\nof\n%s", out, chat.raw)
			}
			return
		}
		if left := len(again.Seals(seed)); left > len(marks) {
			t.Fatalf("%d sealed parts of %d", left, len(marks))
		}
	})
}

// FuzzForward_Sealed: a body that can be read stays JSON without its sealed parts.
func FuzzForward_Sealed(f *testing.F) {
	f.Add(withHistory(`"reasoning_details":[{"type":"reasoning.encrypted","data":"A"},{"text":"so","signature":"S"}]`))
	f.Add(withHistory(`"content":[{"type":"redacted_thinking","data":"A"}],"tool_calls":[{"extra_content":{"google":{"thought_signature":"S"}}}]`))
	f.Fuzz(func(t *testing.T, body string) {
		chat, err := DecodeChat([]byte(body), func([]byte) int { return 0 })
		if err != nil {
			t.Skip()
		}
		chat.Seals(maphash.MakeSeed())
		out := chat.AppendForward(nil, Target{Model: "m", Foreign: everything})
		if !jsontext.Value(out).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			t.Errorf("not JSON:\n%s\nof\n%s", out, body)
		}
	})
}

// BenchmarkSealed is what sealed parts cost: to find those of a history, and to leave them out.
func BenchmarkSealed(b *testing.B) {
	entry := `{"type":"reasoning.encrypted","data":"` + strings.Repeat("gAAAAA", 200) + `"}`
	chat := sealedChat(b, withHistory(`"reasoning_details":[`+strings.Repeat(entry+",", 9)+entry+`]`))
	seed := maphash.MakeSeed()
	b.Run("marks", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			chat.Seals(seed)
		}
	})
	buf := chat.AppendForward(nil, Target{Model: "m"})
	b.Run("left out", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = chat.AppendForward(buf[:0], Target{Model: "m", Foreign: everything})
		}
	})
}
