// Package estimate guesses how many tokens a text has for a language model, without a tokenizer. The guess is
// generous: it decides whether a prompt fits into a context window, and is never billed.
package estimate

import "bytes"

// JSON is a generous count of the tokens in raw JSON text, the quotes and the escapes of its strings included: an
// escape counts as the character it stands for. It takes about a nanosecond for a byte and does not allocate.
func JSON(raw []byte) int {
	sum := uint64(0)
	ctx := uint(space)<<4 | uint(space)
	for {
		plain := bytes.IndexByte(raw, '\\')
		if plain < 0 {
			plain = len(raw)
		}
		for _, c := range raw[:plain] {
			ctx = (ctx<<4 | uint(classOf[c])) & 0xfff
			sum += uint64(weights[ctx])
		}
		if raw = raw[plain:]; len(raw) == 0 {
			break
		}
		k, n := escape(raw)
		raw = raw[n:]
		ctx = (ctx<<4 | uint(k)) & 0xfff
		sum += uint64(weights[ctx])
		if k >= twoByte || k == kana {
			ctx = ctx<<4&0xfff | uint(tail)
		}
	}
	return int((sum + unit - 1) / unit)
}

// escape is the class of the character that the escape sequence at the start of raw stands for, and its length.
func escape(raw []byte) (class, int) {
	if len(raw) < 2 {
		return punct, 1
	}
	switch raw[1] {
	case '"':
		return quote, 2
	case 'b', 'f', 'n', 'r', 't':
		return control, 2
	case 'u':
		if r, ok := hex(raw); ok {
			return ofRune(r), 6
		}
		return punct, 1
	}
	return punct, 2
}

// hex reads the four hexadecimal digits behind \u.
func hex(raw []byte) (r rune, ok bool) {
	if len(raw) < 6 {
		return 0, false
	}
	for _, c := range raw[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// ofRune is the class of a UTF-16 code unit. Of a surrogate pair the first counts for the character.
func ofRune(r rune) class {
	switch {
	case r < 0x80:
		return classOf[r]
	case r < 0x800:
		return twoByte
	case r >= 0xdc00 && r < 0xe000:
		return tail
	case r >= 0xd800 && r < 0xdc00:
		return astral
	case r >= 0xf000:
		return other
	}
	return classOf[0xe0|r>>12]
}
