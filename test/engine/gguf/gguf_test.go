package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestPieces(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"words with the blank before them", "Hello from here", []string{"Hello", " from", " here"}},
		{"a word that is a token already is joined to the next", "I am", []string{"I am"}},
		{"a repeated word is joined to the next", "the cat and the dog", []string{"the", " cat", " and", " the", " dog"}},
		{"the same word again", "no no no no yes", []string{"no", " no", " no no", " yes"}},
		{"a repeated word at the end is joined to those before it", "one two two", []string{"one", " two two"}},
		{"other scripts", "저는 모델 입니다", []string{"저는", " 모델", " 입니다"}},
		{"no piece ends with white space", " a tool:\n\n  {} \n", []string{"a tool:", "\n\n  {}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := pieces(c.text)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
	for _, text := range []string{"", " \n", "a"} {
		if got, err := pieces(text); err == nil {
			t.Errorf("%q gives %q", text, got)
		}
	}
}

// FuzzPieces: the pieces are the text, each is a token of its own, and none ends as a prompt does.
func FuzzPieces(f *testing.F) {
	f.Add("no no no no yes")
	f.Add("a b a b a b a b")
	f.Add(Tool("t", `{"a": "b"}`))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := pieces(text)
		if err != nil {
			return
		}
		if all := strings.Join(got, ""); all != strings.TrimSpace(text) {
			t.Errorf("%q became %q", text, got)
		}
		texts := newVocabulary(got).texts
		seen := map[string]bool{}
		for _, s := range texts {
			if seen[s] {
				t.Errorf("%q is there twice: %q", s, got)
			}
			seen[s] = true
		}
		for _, p := range got {
			if strings.HasSuffix(p, "\n") {
				t.Errorf("%q ends with a newline", p)
			}
		}
	})
}

func TestWrite(t *testing.T) {
	size := func(t *testing.T, m Model) int {
		var b bytes.Buffer
		if err := m.Write(&b); err != nil {
			t.Fatal(err)
		}
		head := struct {
			Magic           [4]byte
			Version         uint32
			Tensors, Values uint64
		}{}
		if err := binary.Read(bytes.NewReader(b.Bytes()), binary.LittleEndian, &head); err != nil {
			t.Fatal(err)
		}
		layers := max(m.Layers, 1)
		if string(head.Magic[:]) != "GGUF" || head.Version != 3 || head.Tensors != uint64(3+9*layers) || head.Values != 24 {
			t.Errorf("head %+v", head)
		}
		if b.Len()%alignment != 0 {
			t.Errorf("%d bytes", b.Len())
		}
		return b.Len()
	}
	small := size(t, Model{Say: "Hello there"})
	// 384 wide: 4·384² + 3·384·64 weights in a layer, and two norms
	if got, want := size(t, Model{Say: "Hello there", Layers: 2})-small, 4*(4*384*384+3*384*64+2*384); got < want || got > want+1024 {
		t.Errorf("another layer has %d bytes, want %d and some metadata", got, want)
	}
	if got, want := size(t, Model{Say: "Hello there", FeedForward: 1024})-small, 4*3*384*(1024-64); got != want {
		t.Errorf("a wider layer has %d bytes more, want %d", got, want)
	}
	for _, m := range []Model{{}, {Say: "Hello there", Layers: -1}, {Say: "Hello there", Context: -1}} {
		if err := m.Write(new(bytes.Buffer)); err == nil {
			t.Errorf("%+v was written", m)
		}
	}
	if err := (Model{Say: "Hello there"}).Write(full{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk gives %v", err)
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
