package slot

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// talker is an engine that writes what it likes.
type talker struct {
	memEngine
	key   hearth.Secret
	lines []string
}

func (e *talker) APIKey() hearth.Secret { return e.key }
func (e *talker) LogTail() []string     { return e.lines }

func TestMasked(t *testing.T) {
	for name, c := range map[string]struct {
		key         hearth.Secret
		lines, want []string
	}{
		"the key is nowhere to be read": {
			"k3y-of-this-start", []string{"up", "args: --api-key k3y-of-this-start -c 1", "k3y-of-this-startk3y-of-this-start"},
			[]string{"up", "args: --api-key [redacted] -c 1", "[redacted][redacted]"},
		},
		"an engine without a key":   {"", []string{"up"}, []string{"up"}},
		"a word that is no secret":  {"up", []string{"up", "up and down"}, []string{"up", "up and down"}},
		"an engine without a log":   {"k3y-of-this-start", nil, nil},
		"a log without the key":     {"k3y-of-this-start", []string{"k3y-of-this"}, []string{"k3y-of-this"}},
		"the shortest that is seen": {"12345678", []string{"a 12345678"}, []string{"a [redacted]"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]string(nil), c.lines...)
			if d := cmp.Diff(c.want, masked{&talker{key: c.key, lines: c.lines}}.LogTail()); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(before, c.lines); d != "" {
				t.Errorf("the engine's own lines were changed: %s", d)
			}
		})
	}
	bubble(t, "and so in what a fleet shows", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		if _, ok := (*h.locals["gpu-1"].parts[0].cell.engine.Load()).(masked); !ok {
			t.Error("the engine is as the driver made it")
		}
		h.close()
	})
}
