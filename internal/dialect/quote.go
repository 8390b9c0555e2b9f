package dialect

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// appendQuoted appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			dst, _ = jsontext.AppendQuote(dst, s) // the error tells of invalid UTF-8, which is replaced
			return dst
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
