package slot

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// warnings makes a logger that keeps what is worth a warning, without the time.
func warnings() (*slog.Logger, *bytes.Buffer) { return logFrom(slog.LevelWarn) }

// logFrom keeps what is at least of a level.
func logFrom(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var kept bytes.Buffer
	return slog.New(slog.NewTextHandler(&kept, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &kept
}

func TestLog(t *testing.T) {
	soon := func(s *hearth.Slot) { s.StartTimeout = 7 * time.Second }
	bubble(t, "a start past its limit, with the engine's last lines, before the engine is gone", func(t *testing.T) {
		log, kept := warnings()
		h := newHouse(t, &gpu{load: time.Hour, stops: time.Minute, log: log}, soon)
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		synctest.Wait()
		const want = `level=WARN msg="engine is given up" node=gpu-1 slot=a error="engine was not ready within 7s" log="[loading out of memory]"` + "\n"
		if kept.String() != want {
			t.Errorf("the log holds %q, want %q", kept, want)
		}
		pass(time.Hour)
		h.close()
		if kept.String() != want {
			t.Errorf("in the end the log holds %q, want %q", kept, want)
		}
	})
	bubble(t, "a driver that takes longer than the limit", func(t *testing.T) {
		log, kept := warnings()
		g := &gpu{blocks: make(chan struct{}), refuses: errors.New("context canceled"), log: log}
		h := newHouse(t, g, soon)
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		synctest.Wait() // the start is given up after the refusal
		close(g.blocks)
		synctest.Wait()
		const want = `level=WARN msg="engine is given up" node=gpu-1 slot=a error="engine was not ready within 7s"` + "\n"
		if kept.String() != want {
			t.Errorf("the log holds %q, want %q", kept, want)
		}
		h.close()
	})
	bubble(t, "an engine that ends by itself is told once", func(t *testing.T) {
		log, kept := warnings()
		h := newHouse(t, &gpu{load: time.Hour, dies: time.Second, log: log}, soon)
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		h.close()
		const want = `level=WARN msg="engine ended" node=gpu-1 slot=a error="engine exited with code 1" log="[loading out of memory]"` + "\n"
		if kept.String() != want {
			t.Errorf("the log holds %q, want %q", kept, want)
		}
	})
	bubble(t, "a stop that was asked for is no warning", func(t *testing.T) {
		log, kept := warnings()
		h := newHouse(t, &gpu{load: time.Hour, log: log}, soon)
		o := h.ask(t.Context(), h.a, time.Hour)
		synctest.Wait()
		h.close()
		h.refused(<-o, hearth.SkipLoading)
		if kept.Len() > 0 {
			t.Errorf("the log holds %q", kept)
		}
	})
	bubble(t, "an order to one that does nothing is an event, but no step", func(t *testing.T) {
		log, kept := logFrom(slog.LevelInfo)
		h := newHouse(t, &gpu{log: log})
		events := h.Watch(t.Context())
		h.order(Drain, h.a)
		if e := <-events; e.From != e.To || e.Why != "the operator drains it" || kept.Len() > 0 {
			t.Errorf("event %+v, the log holds %q", e, kept)
		}
		h.close()
	})
	t.Run("of a long log the last twenty lines", func(t *testing.T) {
		log, kept := warnings()
		r := &run{node: &node{log: log}, conf: &hearth.Slot{Name: "a"}}
		tail := r.warn("engine ended", "why", &talker{lines: slices.Repeat([]string{"x"}, 30)})
		want := `level=WARN msg="engine ended" slot=a error=why log="[` + strings.TrimSpace(strings.Repeat("x ", 20)) + "]\"\n"
		if kept.String() != want || len(tail) != 30 {
			t.Errorf("%d lines, the log holds %q", len(tail), kept)
		}
	})
}
