package account

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"myip.co.kr/hearth"
)

const (
	maxName  = 100 // characters
	maxPlain = 256 // bytes of a key
	// secretDigits is how many base62 digits 32 random bytes take: 62^43 > 2^256.
	secretDigits = 43
	ends         = 3 // characters of the secret shown at either end of a label
)

func newID() string { return "key-" + ulid.Make().String() }

func hash(plain string) hearth.KeyHash { return sha256.Sum256([]byte(plain)) }

// newPlain draws a key: the prefix and 32 random bytes in base62.
func newPlain(prefix string) (string, error) {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("draw key: %w", err)
	}
	digits := new(big.Int).SetBytes(b[:]).Text(62)
	return prefix + strings.Repeat("0", secretDigits-len(digits)) + digits, nil
}

// label shows the ends of a key, if what is left hidden is long enough to stay a secret.
func label(plain, prefix string) string {
	secret, ok := strings.CutPrefix(plain, prefix)
	if !ok {
		prefix = ""
	}
	if len(secret) < 8*ends {
		return prefix + "…"
	}
	return prefix + secret[:ends] + "…" + secret[len(secret)-ends:]
}

func checkName(name string) error {
	if strings.TrimSpace(name) == "" {
		return hearth.Invalid("name", "a key needs a name, so that it can be told from others")
	}
	return checkText("name", name)
}

// checkText refuses what would harm a terminal or is no name.
func checkText(field, text string) error {
	switch {
	case !utf8.ValidString(text):
		return hearth.Invalid(field, "the %s of a key must be valid UTF-8", field)
	case utf8.RuneCountInString(text) > maxName:
		return hearth.Invalid(field, "the %s of a key may have up to %d characters, this one has %d", field, maxName, utf8.RuneCountInString(text))
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return hearth.Invalid(field, "the %s of a key may hold only printable characters, this one holds %U", field, r)
		}
	}
	return nil
}

func checkPlain(plain string) error {
	if plain == "" || len(plain) > maxPlain {
		return hearth.Invalid("key", "a key must have 1 to %d characters, this one has %d", maxPlain, len(plain))
	}
	if !headerSafe(plain) {
		return hearth.Invalid("key", "a key may hold only printable ASCII characters without spaces: it is sent in a header")
	}
	return nil
}

func checkPrefix(prefix string) error {
	if len(prefix) > maxPlain-secretDigits || !headerSafe(prefix) {
		return hearth.Invalid("prefix", "the prefix of keys may hold up to %d printable ASCII characters without spaces", maxPlain-secretDigits)
	}
	return nil
}

// headerSafe says whether s is printable ASCII without spaces.
func headerSafe(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// printable shortens s and drops what must not reach a terminal.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	if utf8.RuneCountInString(s) > maxName {
		s = string([]rune(s)[:maxName]) + "…"
	}
	return s
}
