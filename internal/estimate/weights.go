package estimate

// class is what kind of character a byte belongs to. A character of several bytes has the class of its first byte;
// the others are tails.
type class = uint8

const (
	vowel class = iota // aeiou
	consonant
	rare // jkqvwxz: seldom in words, often in noise
	upper
	digit
	space
	control // line ends, tabs
	quote
	kana // U+3000–U+3FFF: kana, single jamo, East Asian marks
	punct
	tail
	twoByte // Latin with marks, Greek, Cyrillic, Hebrew, Arabic
	hangul
	cjk
	other   // three bytes: Thai, Hindi, symbols, arrows, dashes
	astral  // four bytes: emoji
	classes // how many
)

// unit is how many weights make a token.
const unit = 64

// classOf is the class of each byte.
var classOf = func() (t [256]class) {
	for i := range t {
		t[i] = classify(byte(i))
	}
	return t
}()

func classify(c byte) class {
	switch {
	case c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u':
		return vowel
	case c == 'j' || c == 'k' || c == 'q' || c >= 'v' && c <= 'x' || c == 'z':
		return rare
	case c >= 'a' && c <= 'z':
		return consonant
	case c >= 'A' && c <= 'Z':
		return upper
	case c >= '0' && c <= '9':
		return digit
	case c == ' ':
		return space
	case c < ' ':
		return control
	case c == '"':
		return quote
	case c < 0x80:
		return punct
	case c < 0xc0:
		return tail
	case c < 0xe0:
		return twoByte
	case c == 0xe3:
		return kana
	case c >= 0xe4 && c <= 0xe9:
		return cjk
	case c >= 0xea && c <= 0xed:
		return hangul
	case c < 0xf0:
		return other
	}
	return astral
}

// weights is the weight of a byte by the classes of the two bytes before it and its own, four bits each.
var weights = func() (t [1 << 12]uint8) {
	for i := range t {
		t[i] = weigh(class(i>>8), class(i>>4&15), class(i&15))
	}
	return t
}()

// weigh is what a byte of class c adds after bytes of classes a and b. The numbers come from a linear program:
// the least that is enough for every tokenizer in testdata on every text there, and nearly enough on some hundred
// more of source code, manuals and prose, plus six in a hundred (none for Hangul).
func weigh(a, b, c class) uint8 {
	inside := func(more, first uint8) uint8 {
		if b == tail {
			return more
		}
		return first
	}
	switch c {
	case vowel, consonant, rare:
		return weighLower(a, b, c)
	case upper:
		return weighUpper(a, b)
	case space, control:
		return weighSpace(a, b, c)
	case digit:
		if b == digit {
			return 70
		}
		return 105
	case quote:
		if b <= digit || b == tail {
			return 36
		}
		return 21
	case punct:
		switch b {
		case punct, quote:
			return 26
		case space, control:
			return 40
		}
		return 34
	case hangul:
		if b == space {
			return 96
		}
		return inside(123, 52)
	case twoByte:
		return inside(51, 109)
	case kana:
		return inside(87, 238)
	case cjk:
		return inside(71, 109)
	case other:
		return inside(63, 137)
	case astral:
		return inside(210, 238)
	}
	return 0 // tail
}

// weighLower tells words from noise: a word starts dear and goes on cheap while vowels and consonants take turns.
func weighLower(a, b, c class) uint8 {
	pick := func(usual, odd uint8) uint8 {
		if b == rare || c == rare {
			return odd
		}
		return usual
	}
	v, w := b == vowel, c == vowel
	switch {
	case b == upper && a == upper:
		return 82
	case b == upper && (a == space || a == control):
		return 7
	case b == upper:
		return 21
	case b == space:
		return 41
	case b == digit:
		return 45
	case b == tail:
		return 191
	case b > rare:
		return 66
	case a > rare && v != w: // the second letter of a word
		return pick(2, 16)
	case a > rare:
		return pick(35, 168)
	case v && w && a == vowel:
		return 41
	case !v && !w && a != vowel:
		return pick(54, 82)
	case v != w && (a == vowel) == w:
		return pick(2, 7)
	}
	return pick(3, 71)
}

func weighUpper(a, b class) uint8 {
	switch {
	case b == upper && a == upper:
		return 51
	case b == upper:
		return 28
	case b <= rare:
		return 67
	case b == digit:
		return 48
	case b == space || b == control:
		return 48
	}
	return 41
}

func weighSpace(a, b, c class) uint8 {
	switch {
	case c == control && b == control && a == control:
		return 10
	case c == control && b == control:
		return 68
	case c == control:
		return 102
	case b == space && a == space:
		return 2
	case b == space:
		return 21
	case b <= upper || b == tail:
		return 10
	}
	return 59
}
