package gguf

import (
	"fmt"
	"strings"
	"unicode"
)

// Kinds of tokens, by llama.cpp's numbers.
const (
	kindNormal  = 1
	kindUnknown = 2
	kindControl = 3
	kindByte    = 6
)

// space stands for a blank in a SentencePiece vocabulary.
const space = "▁"

// vocabulary is a SentencePiece vocabulary with byte fallback: every text has tokens.
type vocabulary struct {
	texts  []string
	scores []float32
	kinds  []int32

	bos, eos, end int // <s>, </s> and <|im_end|>, which ends an answer
	first, last   int // of the script's words
}

// newVocabulary makes the tokens that every model has, and one of each of the script's pieces.
func newVocabulary(script []string) *vocabulary {
	v := new(vocabulary)
	v.add("<unk>", kindUnknown, 0)
	v.bos = v.add("<s>", kindControl, 0)
	v.eos = v.add("</s>", kindControl, 0)
	for i := range 256 {
		v.add(fmt.Sprintf("<0x%02X>", i), kindByte, 0)
	}
	v.add("<|im_start|>", kindControl, 0)
	v.end = v.add("<|im_end|>", kindControl, 0)
	for c := ' '; c <= '~'; c++ { // ordinary text has one token per character
		v.add(encoded(string(c)), kindNormal, -1000-float32(c))
	}
	v.first = len(v.texts)
	for _, piece := range script {
		v.last = v.add(encoded(piece), kindNormal, -1)
	}
	return v
}

func (v *vocabulary) add(text string, kind int32, score float32) int {
	v.texts, v.kinds, v.scores = append(v.texts, text), append(v.kinds, kind), append(v.scores, score)
	return len(v.texts) - 1
}

func encoded(text string) string { return strings.ReplaceAll(text, " ", space) }

// pieces cuts a text into the tokens of a script: words with the white space before them. Every token's text must be
// unique in a vocabulary, so a word that was there before is joined to its neighbour.
func pieces(text string) ([]string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, fmt.Errorf("read the script: it says nothing")
	}
	taken := map[string]bool{}
	for _, t := range newVocabulary(nil).texts {
		taken[t] = true
	}
	var out []string
	carry := ""
	for _, w := range words(text) {
		if w = carry + w; taken[encoded(w)] {
			carry = w
			continue
		}
		carry = ""
		taken[encoded(w)] = true
		out = append(out, w)
	}
	for carry != "" {
		if len(out) == 0 {
			return nil, fmt.Errorf("read the script: %q is too short for a word of its own", text)
		}
		last := out[len(out)-1]
		delete(taken, encoded(last))
		out = out[:len(out)-1]
		if carry = last + carry; !taken[encoded(carry)] {
			out, carry = append(out, carry), ""
		}
	}
	return out, nil
}

// words cuts before white space: no word ends with it, because the end of every prompt is a newline.
func words(text string) []string {
	var out []string
	begin, blank := 0, false
	for i, r := range text {
		now := unicode.IsSpace(r)
		if now && !blank && i > 0 {
			out = append(out, text[begin:i])
			begin = i
		}
		blank = now
	}
	return append(out, text[begin:])
}
