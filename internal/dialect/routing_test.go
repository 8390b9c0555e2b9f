package dialect

import (
	"slices"
	"testing"
)

func TestDecodeRouting(t *testing.T) {
	c, err := DecodeRouting([]byte(`{"models":["a/b"],"provider":{"ignore":["local-gpu"]}}`), bytesCount)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Models, []string{"a/b"}) || !slices.Equal(c.Prefs.Ignore, []string{"local-gpu"}) || len(c.Notes) != 1 {
		t.Errorf("%+v", c.Request)
	}
	for _, bad := range []string{`{"models":["a/b"],"messages":[]}`, `{"models":[1]}`, `{`} {
		if _, err := DecodeRouting([]byte(bad), bytesCount); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	if _, err := DecodeChat([]byte(`{"models":["a/b"]}`), bytesCount); err == nil {
		t.Error("a chat without messages was accepted")
	}
}

func TestStampFinishReason(t *testing.T) {
	for _, tc := range []struct {
		called     uint64
		said, want string
	}{{0, "", "stop"}, {0, "length", "length"}, {1, "", "tool_calls"}, {1, "stop", "tool_calls"}, {1, "length", "length"}} {
		s := &Stamp{called: tc.called}
		if got := s.FinishReason(tc.said); got != tc.want {
			t.Errorf("called %d, said %q: %q, want %q", tc.called, tc.said, got, tc.want)
		}
	}
}
