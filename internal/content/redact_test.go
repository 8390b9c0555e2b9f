package content

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func redactor(t testing.TB, own ...string) *Redactor {
	t.Helper()
	r, err := NewRedactor(own, true, "sk-myip-")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const jwt = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

func TestRedactor_Usual(t *testing.T) {
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc+/=\n-----END RSA PRIVATE KEY-----"
	for _, c := range []struct{ name, in, want string }{
		{"a key of ours", "use sk-myip-Abc123_-xyz please", "use [redacted:api-key] please"},
		{"keys of others", "sk-proj-abcdEFGH1234 sk-ant-api03-abcdefgh_ij AKIAIOSFODNN7EXAMPLE ghp_abcdefghijklmnopqrst0123 hf_abcdefghijklmnopqrstuv", "[redacted:api-key] [redacted:api-key] [redacted:api-key] [redacted:api-key] [redacted:api-key]"},
		{"a key within Korean", "키는sk-abcdefghijklmnop입니다", "키는[redacted:api-key]입니다"},
		{"a key that is too short is none", "sk-short", "sk-short"},
		{"a bearer token", "Authorization: Bearer abc.def-123/~+==", "Authorization: Bearer [redacted:token]"},
		{"in another case", "authorization: bearer 0123456789", "authorization: bearer [redacted:token]"},
		{"basic credentials", "Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [redacted:token]"},
		{"a plain word behind bearer is none", "the bearer certificate", "the bearer certificate"},
		{"a JWT", "t=" + jwt + ";", "t=[redacted:jwt];"},
		{"a JWT that is cut off", "t=" + jwt[:30], "t=[redacted:jwt]"},
		{"a private key", "a\n" + pem + "\nb", "a\n[redacted:private-key]\nb"},
		{"a private key that is cut off", "a " + pem[:50], "a [redacted:private-key]"},
		{"an e-mail address", "to Kim.Min+tag@mail.example.co.kr, now", "to [redacted:email], now"},
		{"one with letters of other scripts", "홍길동@한국.kr", "[redacted:email]"},
		{"no address", "a @ b, user@host, @handle", "a @ b, user@host, @handle"},
		{"a card", "4111 1111 1111 1111", "[redacted:card]"},
		{"a card with dashes", "card:5555-5555-5555-4444.", "card:[redacted:card]."},
		{"a card without blanks", "x378282246310005x", "x[redacted:card]x"},
		{"a wrong check digit", "4111 1111 1111 1112", "4111 1111 1111 1112"},
		{"more digits behind a card", "4111 1111 1111 1111 123", "[redacted:card] 123"},
		{"digits before a card", "17 4111 1111 1111 1111", "17 [redacted:card]"},
		{"a long number is no card", "12341111111111111111234567", "12341111111111111111234567"},
		{"noughts are none", "0000 0000 0000 0000", "0000 0000 0000 0000"},
		{"a resident registration number", "주민번호 900101-1234568 입니다", "주민번호 [redacted:rrn] 입니다"},
		{"without its dash", "9001011234569", "[redacted:rrn]"},
		{"no date, none", "901301-1234567", "901301-1234567"},
		{"a mobile phone", "번호는010-1234-5678입니다", "번호는[redacted:phone]입니다"},
		{"without dashes", "01012345678", "[redacted:phone]"},
		{"a phone in Seoul", "02-123-4567 or (031) 123-4567", "[redacted:phone] or [redacted:phone]"},
		{"an international number", "+82 10 1234 5678, +1-415-555-0132", "[redacted:phone], [redacted:phone]"},
		{"a North American number", "(415) 555-0132 and 415-555-0132", "[redacted:phone] and [redacted:phone]"},
		{"other numbers stay", "in 2026-11-30 12:00, 3.14159265, 1,000,000 won, gen-01JD8Q2K7M", "in 2026-11-30 12:00, 3.14159265, 1,000,000 won, gen-01JD8Q2K7M"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := redactor(t).Text(c.in); got != c.want {
				t.Errorf("%q\n got %q\nwant %q", c.in, got, c.want)
			}
		})
	}
}

func TestRedactor_Own(t *testing.T) {
	r := redactor(t, `PROJECT-[0-9]+`, `(?i)falcon`, `x*`)
	if got, want := r.Text("about Falcon, PROJECT-77 and a@b.co: y"), "about [redacted], [redacted] and [redacted:email]: y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Run("what overlaps is replaced as one", func(t *testing.T) {
		r := redactor(t, `mail kim`, `kim@example\.com today`)
		if got, want := r.Text("mail kim@example.com today."), "[redacted]."; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("without the usual ones", func(t *testing.T) {
		r, err := NewRedactor([]string{"abc"}, false, "sk-myip-")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := r.Text("abc a@b.co sk-myip-0123456789"), "[redacted] a@b.co sk-myip-0123456789"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("the prefix of keys made here", func(t *testing.T) {
		r, err := NewRedactor(nil, true, "acme.")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := r.Text("acme.01234567 acmeX01234567"), "[redacted:api-key] acmeX01234567"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	for name, patterns := range map[string][]string{
		"no regular expression": {"("}, "too long": {strings.Repeat("a", MaxPatternBytes+1)}, "too many": make([]string, MaxPatterns+1),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewRedactor(patterns, true, ""); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// secrets are one of each kind.
var secrets = []string{
	"sk-myip-0123456789abcdef", "sk-ant-api03-AbCdEf0123", "Bearer 0123456789abcdef", jwt, "kim@example.com", "4111 1111 1111 1111",
	"4111111111111111", "900101-1234568", "010-1234-5678", "+82 10-1234-5678", "ghp_abcdefghijklmnopqrst0123",
}

// bare is what must not be found of a secret.
func bare(secret string) string { return strings.TrimPrefix(secret, "Bearer ") }

func TestRedactor_Properties(t *testing.T) {
	r := redactor(t)
	rapid.Check(t, func(t *rapid.T) {
		// Digits, dashes and letters beside a secret would make another text of it.
		word := rapid.StringMatching(`[가-힣 .,!\n"(]{0,12}`)
		var b strings.Builder
		var in []string
		for range rapid.IntRange(0, 6).Draw(t, "secrets") {
			b.WriteString(word.Draw(t, "between") + " , ")
			s := rapid.SampledFrom(secrets).Draw(t, "secret")
			in = append(in, s)
			b.WriteString(s + " , ")
		}
		text := b.String()
		got := r.Text(text)
		for _, s := range in {
			if strings.Contains(got, bare(s)) {
				t.Fatalf("%q is left of %q", s, text)
			}
		}
		if again := r.Text(got); again != got {
			t.Fatalf("redacted twice, %q becomes %q", got, again)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("%q is no UTF-8", got)
		}
		if n := strings.Count(got, "[redacted:"); n != len(in) {
			t.Fatalf("%d parts of %q were replaced, it has %d", n, text, len(in))
		}
	})
}

// FuzzRedactor: whatever the text, redaction ends, keeps it UTF-8 and leaves nothing to be found.
func FuzzRedactor(f *testing.F) {
	for _, s := range secrets {
		f.Add(s, 5)
	}
	f.Add("4111 1111 1111 1111 4111-1111-1111-1111 9001011234568 +1 2 3 4 5 6 7 8", 30)
	r := redactor(f)
	f.Fuzz(func(t *testing.T, text string, keep int) {
		text = strings.ToValidUTF8(text, "?")
		keep = whole(text, max(0, min(keep, len(text))))
		all, part := r.Text(text), r.prefix(text, keep)
		if !utf8.ValidString(all) || !utf8.ValidString(part) {
			t.Fatalf("%q: no UTF-8", text)
		}
		if len(r.spans(text)) == 0 && (all != text || part != text[:keep]) {
			t.Fatalf("%q was changed", text)
		}
		if tail := strings.TrimSuffix(part, "]"); !strings.HasPrefix(all, part) && !strings.HasPrefix(all, tail) {
			t.Fatalf("the beginning %q is none of %q", part, all)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	text := strings.Repeat("The quick brown fox, aged 12, jumps over 3 lazy dogs in 2026. 빠른 갈색 여우가 뛴다. ", 40)
	for name, in := range map[string]string{"plain": text, "secrets": text + strings.Join(secrets, " , ")} {
		b.Run(name, func(b *testing.B) {
			r := redactor(b)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				r.Text(in)
			}
		})
	}
}

var day = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
