package content

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// usual are the kinds of text that nobody wants to find in a log. They take too much rather than too little. What may be
// cut off at the end of a text (a token, the block of a private key) is recognised by its beginning. Regular expressions
// only see the few places where something may be: they are slow.
var usual = []finder{
	{"private-key", "PRIVATE KEY", all(regexp.MustCompile(`-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?`))},
	{"jwt", "eyJ", beginning(mark{"eyJ", 12}, ".")},
	{"token", "", tokens},
	{"api-key", "", apiKeys},
	{"email", "@", emails},
	{"rrn", "", residents},
	{"card", "", cards},
	{"phone", "", phones},
}

// mark is what a secret begins with, and how many letters, digits, - and _ follow at least.
type mark struct {
	text string
	more int
}

// makers are the marks of API keys: OpenAI, Anthropic, OpenRouter, Stripe and others (sk, pk, rk), GitHub, GitLab, Slack, AWS, Google,
// Hugging Face, npm, Groq, xAI, Perplexity, Replicate, SendGrid, DigitalOcean.
var makers = []mark{
	{"sk-", 12}, {"sk_", 12}, {"pk-", 12}, {"pk_", 12}, {"rk-", 12}, {"rk_", 12}, {"ghp_", 20}, {"gho_", 20}, {"ghu_", 20}, {"ghs_", 20}, {"ghr_", 20},
	{"github_pat_", 20}, {"glpat-", 16}, {"xox", 12}, {"xapp-", 10}, {"AKIA", 16}, {"ASIA", 16}, {"ABIA", 16}, {"ACCA", 16}, {"AIza", 30},
	{"hf_", 20}, {"npm_", 20}, {"gsk_", 20}, {"xai-", 20}, {"pplx-", 20}, {"r8_", 20}, {"SG.", 16}, {"dop_v1_", 32},
}

func apiKeys(text string) (found [][]int) {
	for _, m := range makers {
		if strings.Contains(text, m.text) {
			more := ""
			if strings.HasSuffix(m.text, ".") {
				more = "."
			}
			found = append(found, beginning(m, more)(text)...)
		}
	}
	return found
}

// beginning finds what begins with a mark at the beginning of a word. more are characters that it may hold besides.
func beginning(m mark, more string) func(string) [][]int {
	return func(text string) (found [][]int) {
		for at := 0; ; {
			i := strings.Index(text[at:], m.text)
			if i < 0 {
				return found
			}
			from := at + i
			end, body := from+len(m.text), 0
			for ; end < len(text) && (wordly(text[end]) || text[end] == '-' || strings.IndexByte(more, text[end]) >= 0); end++ {
				body++
			}
			if body >= m.more && (from == 0 || !wordly(text[from-1])) {
				for strings.IndexByte(more, text[end-1]) >= 0 { // the end of a sentence
					end--
				}
				found = append(found, []int{from, end})
			}
			at = max(from+1, end-len(m.text))
		}
	}
}

// wordly says whether a byte is a letter, a digit or _.
func wordly(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || digit(c) || c == '_'
}

var token = regexp.MustCompile(`(?i)\b(?:bearer|basic)[ \t]+["']?([A-Za-z0-9._~+/=-]{8,})`)

// tokens are what stands behind Bearer and Basic in a header. A plain word there is none ("a bearer certificate").
func tokens(text string) (found [][]int) {
	if !strings.Contains(text, "earer") && !strings.Contains(text, "asic") && !strings.Contains(text, "EARER") && !strings.Contains(text, "ASIC") {
		return nil
	}
	for _, m := range token.FindAllStringSubmatchIndex(text, -1) {
		if word := text[m[2]:m[3]]; strings.ContainsAny(word, "0123456789._~+/=") || len(word) >= 20 {
			found = append(found, []int{m[2], m[3]})
		}
	}
	return found
}

// What of an address may stand before its @, in a label of its domain and in the last one, in characters; and behind the @ in
// all, in bytes.
const (
	localMost   = 64
	labelMost   = 63
	lastLeast   = 2
	lastMost    = 24
	domainBytes = 255
)

// emails are e-mail addresses (RFC 5322 without quotes and comments, RFC 6531).
func emails(text string) (found [][]int) {
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '@')
		if i < 0 {
			return found
		}
		i += at
		from := i - localPart(text[at:i])
		at = i + 1
		if from == i {
			continue
		}
		if n := domain(text[at:min(len(text), at+domainBytes)]); n > 0 {
			at += n
			found = append(found, []int{from, at})
		}
	}
}

// localPart is how many bytes at the end of s may stand before an @.
func localPart(s string) int {
	n := 0
	for range localMost {
		c, size := utf8.DecodeLastRuneInString(s[:len(s)-n])
		if size == 0 || !named(c) && !strings.ContainsRune("._%+'-", c) {
			break
		}
		n += size
	}
	return n
}

// domain is how many bytes at the beginning of s are one, 0 = none: labels, and behind their dots one of letters alone.
func domain(s string) (n int) {
	for at := 0; ; {
		label, _ := leading(s[at:], labelMost, func(c rune, i int) bool { return named(c) || c == '-' && i > 0 })
		if label == 0 || at+label == len(s) || s[at+label] != '.' {
			return n
		}
		at += label + 1
		if last, letters := leading(s[at:], lastMost, func(c rune, _ int) bool { return unicode.IsLetter(c) }); letters >= lastLeast {
			n = at + last
		}
	}
}

// leading is how many bytes at the beginning of s are characters that are ok, and how many characters they are: most at most.
func leading(s string, most int, ok func(c rune, i int) bool) (bytes, count int) {
	for i, c := range s {
		if count == most || !ok(c, count) {
			return i, count
		}
		count++
	}
	return len(s), count
}

// named says whether a character is a letter or a number.
func named(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }

// run is a piece of a text that is made of digits in groups, with at most one separator between two groups.
type run struct {
	digits []byte
	at     []int // where each digit stands in the text
	first  []int // of which digits a group begins
}

// runs finds the runs of at least so many digits.
func runs(text string, least int) (list []run) {
	for i := 0; i < len(text); i++ {
		if !digit(text[i]) {
			continue
		}
		if short(text[i:], least) {
			for i < len(text) && digit(text[i]) {
				i++
			}
			continue
		}
		r := run{first: []int{0}}
		for i < len(text) {
			switch c := text[i]; {
			case digit(c):
				r.digits, r.at = append(r.digits, c), append(r.at, i)
				i++
				continue
			case (c == ' ' || c == '-') && i+1 < len(text) && digit(text[i+1]):
				r.first = append(r.first, len(r.digits))
				i++
				continue
			}
			break
		}
		if len(r.digits) >= least {
			list = append(list, r)
		}
	}
	return list
}

// short says whether a run that begins here has fewer digits.
func short(text string, least int) bool {
	for i := 0; i < len(text) && least > 0; i++ {
		switch c := text[i]; {
		case digit(c):
			least--
		case (c == ' ' || c == '-') && i+1 < len(text) && digit(text[i+1]):
		default:
			return true
		}
	}
	return least > 0
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// ends are the numbers of digits before which a group ends, for groups from g on.
func (r *run) end(g int) int {
	if g+1 < len(r.first) {
		return r.first[g+1]
	}
	return len(r.digits)
}

// cards are numbers of payment cards: 13 to 19 digits in whole groups, whose check digit is right (ISO/IEC 7812-1, annex B).
func cards(text string) (found [][]int) {
	for _, r := range runs(text, 13) {
		for g := 0; g < len(r.first); g++ {
			from, best := r.first[g], 0
			for h := g; h < len(r.first) && r.end(h)-from <= 19; h++ {
				if n := r.end(h) - from; n >= 13 && luhn(r.digits[from:r.end(h)]) {
					best = h + 1
				}
			}
			if best > 0 {
				found = append(found, []int{r.at[from], r.at[r.end(best-1)-1] + 1})
				g = best - 1
			}
		}
	}
	return found
}

// luhn says whether the check digit at the end is right.
func luhn(digits []byte) bool {
	sum, some := 0, false
	for i, c := range digits {
		n := int(c - '0')
		some = some || n != 0
		if (len(digits)-i)%2 == 0 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return some && sum%10 == 0
}

// residents are Korean resident and foreigner registration numbers: the date of birth, a digit for century, sex and
// nationality, and six more. Those given since October 2020 have no check digit, so the date must do.
func residents(text string) (found [][]int) {
	for _, r := range runs(text, 13) {
		for g := range r.first {
			from := r.first[g]
			whole := r.end(g)-from == 13
			halves := g+1 < len(r.first) && r.end(g)-from == 6 && r.end(g+1)-r.end(g) == 7
			if d := r.digits[from:]; (whole || halves) && date(d) && '0' <= d[6] && d[6] <= '9' {
				found = append(found, []int{r.at[from], r.at[from+12] + 1})
			}
		}
	}
	return found
}

// date says whether digits are those of a day, as YYMMDD.
func date(d []byte) bool {
	month, day := int(d[2]-'0')*10+int(d[3]-'0'), int(d[4]-'0')*10+int(d[5]-'0')
	return 1 <= month && month <= 12 && 1 <= day && day <= 31
}

// phone are numbers of telephones: with the country's code, Korean ones (mobile, area codes, 15xx) and North American ones.
var phone = regexp.MustCompile(`\+[1-9][0-9]{0,2}(?:[ .-]?\(?[0-9]{1,4}\)?){2,5}` +
	`|\b01[016789][ .-]?[0-9]{3,4}[ .-]?[0-9]{4}\b` +
	`|\(?\b0[2-9][0-9]?\)?[ .-][0-9]{3,4}[ .-][0-9]{4}\b` +
	`|\b1[568][0-9]{2}-[0-9]{4}\b` +
	`|\(?\b[2-9][0-9]{2}\)?[ .-][2-9][0-9]{2}[ .-][0-9]{4}\b`)

// phones are telephone numbers. Too few digits are none.
func phones(text string) (found [][]int) {
	for at := 0; at < len(text); {
		if c := text[at]; !digit(c) && c != '+' && c != '(' {
			at++
			continue
		}
		end, n := at, 0
		for ; end < len(text) && (digit(text[end]) || strings.IndexByte("+() .-", text[end]) >= 0); end++ {
			if digit(text[end]) {
				n++
			}
		}
		if n >= 8 {
			for _, m := range phone.FindAllStringIndex(text[at:end], -1) {
				if n := digits(text[at+m[0] : at+m[1]]); n >= 8 && n <= 15 {
					found = append(found, []int{at + m[0], at + m[1]})
				}
			}
		}
		at = end
	}
	return found
}

// digits counts the digits of a text.
func digits(text string) (n int) {
	for i := range len(text) {
		if digit(text[i]) {
			n++
		}
	}
	return n
}
