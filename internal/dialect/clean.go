package dialect

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"myip.co.kr/hearth"
)

// clean makes an upstream's text fit for a caller and a log: one line, at most limit bytes, valid UTF-8, without
// control characters, API keys, and addresses and paths of the house.
func clean(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	if !oneWord(s) {
		words := strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
			return r == ' ' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
		})
		s = strings.Join(words, " ")
	}
	s = redact(s)
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

var (
	// keyMarks begin the API keys and tokens that can be told by their looks.
	keyMarks = [...]string{"sk-", "sk_", "gsk_", "xai-", "hf_", "AIza", "r8_", "AKIA", "ghp_", "pplx-", "nvapi-", "eyJ"}
	// bearer is a token as it stands in a header.
	bearer = regexp.MustCompile(`(?i)\b(bearer["':]* +["']?)[^\s"',;<>]{9,}`)
	// named is a secret behind its name, as in a header, a form or JSON.
	named = regexp.MustCompile(`(?i)((?:api[-_ ]?key|access[-_]?token|auth[-_]?token|secret|password|passwd)["']?\s*[:=]\s*["']?)([^\s"',;&<>]{8,})`)
	// path is a place in the file system of a machine.
	path = regexp.MustCompile(`(^|[\s"'(=:\[])/(?:home|root|srv|opt|var|usr|etc|mnt|tmp|Users)/[^\s"'<>,;)\]]*`)
)

// oneWord says whether s is of visible ASCII characters alone, as the ids are that every answer has.
func oneWord(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// identifier is an upstream's name for something as it may stand in a record: letters, digits and a few signs, at most limit
// bytes of them, and no API key. What is anything else may be a piece of a prompt, or a secret, and is "".
func identifier(s string, limit int) string {
	if len(s) > limit {
		return ""
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte("-_.:/+=@~|", c) < 0 {
			return ""
		}
	}
	if redact(s) != s {
		return ""
	}
	return s
}

// redact hides API keys, and the addresses and paths that name a machine of the house.
func redact(s string) string {
	s = redactKeys(s)
	if !strings.ContainsAny(s, " :/=.") {
		return s
	}
	s = bearer.ReplaceAllString(s, "${1}[redacted]")
	s = named.ReplaceAllStringFunc(s, func(m string) string {
		part := named.FindStringSubmatch(m)
		if !strings.ContainsAny(part[2], "0123456789") { // a word about it
			return m
		}
		return part[1] + "[redacted]"
	})
	return path.ReplaceAllString(redactAddresses(s), "${1}[path]")
}

// redactKeys hides what looks like an API key.
func redactKeys(s string) string {
	for _, mark := range keyMarks {
		for from := 0; ; {
			i := strings.Index(s[from:], mark)
			if i < 0 {
				break
			}
			from += i
			if n := tokenLen(s[from:]); n >= 16 && (from == 0 || !alphanumeric(s[from-1])) {
				const hidden = "[redacted]"
				for from+n < len(s) && strings.IndexByte("/+=", s[from+n]) >= 0 { // base64 goes on behind these
					n += 1 + tokenLen(s[from+n+1:])
				}
				s = s[:from] + hidden + s[from+n:]
				from += len(hidden)
			} else {
				from += len(mark)
			}
		}
	}
	return s
}

func alphanumeric(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }

// tokenLen is the length of the run of characters that keys are made of.
func tokenLen(s string) int {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '_' && c != '.' && c != '*' && !alphanumeric(c) {
			return i
		}
	}
	return len(s)
}

// redactAddresses hides URLs and hosts that only the house can reach.
func redactAddresses(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		n := strings.IndexAny(s, " \"'<>(){}`,;=|")
		switch {
		case n < 0:
			n = len(s)
		case n == 0:
			out.WriteByte(s[0])
			s = s[1:]
			continue
		}
		// The query of an address belongs to it, with all the addresses in it.
		for n < len(s) && s[n] == '=' && strings.Contains(s[:n], "://") {
			more := strings.IndexAny(s[n+1:], " \"'<>(){}`,;=|")
			if more < 0 {
				more = len(s) - n - 1
			}
			n += 1 + more
		}
		out.WriteString(redactAddress(s[:n]))
		s = s[n:]
	}
	return out.String()
}

// redactAddress hides a word if it is, or holds, an address of the house.
func redactAddress(w string) string {
	const hidden = "[address]"
	first := strings.Index(w, "://")
	if first < 0 {
		bare := strings.TrimRight(w, ".:")
		host, _, _ := strings.Cut(bare, "/")
		if internalHost(host[strings.LastIndexByte(host, '@')+1:]) {
			return hidden + w[len(bare):]
		}
		return w
	}
	from := schemeStart(w, first)
	for i := first; i >= 0; {
		if internal(w[schemeStart(w, i):]) {
			return w[:from] + hidden
		}
		next := strings.Index(w[i+3:], "://")
		if next < 0 {
			break
		}
		i += 3 + next
	}
	return w
}

// schemeStart is where the scheme begins that ends at w[i].
func schemeStart(w string, i int) int {
	return strings.LastIndexFunc(w[:i], func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) }) + 1
}

// internal says whether a URL names a machine that only the house can reach, or holds a password.
func internal(raw string) bool {
	u, err := url.Parse(strings.TrimRight(raw, ".:"))
	if err != nil || u.User != nil {
		return true
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	return !strings.Contains(host, ".") && !strings.Contains(host, ":") || internalHost(host)
}

// internalHost says whether a host, with or without a port, can only be one of the house.
func internalHost(host string) bool {
	if at, err := netip.ParseAddrPort(host); err == nil {
		return privateAddr(at.Addr())
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return privateAddr(addr)
	}
	if name, port, found := strings.Cut(host, ":"); found && strings.Trim(port, "0123456789") == "" {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" {
		return true
	}
	i := strings.LastIndexByte(host, '.')
	if i < 1 {
		return false
	}
	switch host[i+1:] {
	case "local", "internal", "lan", "localdomain", "corp", "intranet", "home":
		return true
	}
	return strings.HasSuffix(host, ".home.arpa")
}

func privateAddr(a netip.Addr) bool {
	return hearth.OwnNetwork(a) || !a.Unmap().IsGlobalUnicast()
}
