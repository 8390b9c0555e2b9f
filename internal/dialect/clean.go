package dialect

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes an upstream's text fit for a caller and a log: one line, at most limit bytes, valid UTF-8, without
// control characters, API keys and addresses of the house.
func clean(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	words := strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return r == ' ' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	})
	for i, w := range words {
		words[i] = redact(w, i > 0 && strings.EqualFold(strings.TrimRight(words[i-1], ":"), "bearer"))
	}
	s = strings.Join(words, " ")
	if len(s) <= limit {
		return s
	}
	const dots = "…"
	s = s[:limit-len(dots)]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + dots
}

// redact hides a word that is an API key, and the address in one that names a machine of the house.
func redact(w string, secret bool) string {
	if secret && len(w) > 8 {
		return "[redacted]"
	}
	for _, mark := range [...]string{"sk-", "sk_", "gsk_", "xai-", "hf_", "AIza", "r8_"} {
		if i := strings.Index(w, mark); i >= 0 && tokenLen(w[i:]) >= 16 {
			w = w[:i] + "[redacted]" + w[i+tokenLen(w[i:]):]
		}
	}
	if i := strings.Index(w, "://"); i >= 0 {
		from := strings.LastIndexFunc(w[:i], func(r rune) bool { return !unicode.IsLetter(r) })
		from++
		end := from + urlLen(w[from:])
		if internal(w[from:end]) {
			return w[:from] + "[address]" + w[end:]
		}
	}
	return w
}

// tokenLen is the length of the run of characters that keys are made of.
func tokenLen(s string) int {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '_' && c != '.' && c != '*' && !('0' <= c && c <= '9') && !('a' <= c|0x20 && c|0x20 <= 'z') {
			return i
		}
	}
	return len(s)
}

func urlLen(s string) int {
	if i := strings.IndexAny(s, "\"'<>(){}`,;"); i >= 0 {
		return i
	}
	return len(s)
}

// internal says whether a URL names a machine that only the house can reach, or holds a password.
func internal(raw string) bool {
	u, err := url.Parse(strings.TrimRight(raw, ".:"))
	if err != nil || u.User != nil {
		return true
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		return !addr.IsGlobalUnicast() || addr.IsPrivate()
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal") || strings.HasSuffix(host, ".lan")
}
