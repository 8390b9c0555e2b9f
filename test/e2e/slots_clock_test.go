package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A slot that is to be kept warm is up though nobody asks, keeps nobody waiting, and comes back when there is room; when its
// hours are over it is a slot like any other.
func TestKeepWarm(t *testing.T) {
	t.Parallel()
	const more = ", idle_sleep: 100ms, wait: 1m"
	away := strings.ToLower(time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3])
	g := nodes(t, "  - {name: gpu-1, devices: [{id: 0}, {id: 1}], turn: 200ms, min_resident: 0s, slots: [\n"+
		place("gemma", gemma, quick(t, gemma), ", devices: [0], keep_warm: sun-sat"+more)+
		place("exaone", exaone, quick(t, exaone), ", devices: [0]"+more)+place("embed", embed, quick(t, embed), ", devices: [1]"+more)+"    ]}\n", gemma)
	g.until("it is up though nobody asked", func() bool { return g.status(gemma) == 0 })
	pid := g.engineOf(gemma)
	g.served(g.chat(ask(embed, "")), local, embed)
	g.until("another slot has slept in", func() bool { return g.status(embed) == -2 })
	if now := g.engineOf(gemma); now != pid {
		t.Errorf("its engine is %d, before %d", now, pid)
	}

	g.served(g.chat(ask(exaone, "")), local, exaone)
	if g.engineOf(gemma) != 0 {
		t.Errorf("engines %v", g.engines())
	}
	g.until("it comes back when there is room", func() bool { return g.status(gemma) == 0 && g.engineOf(exaone) == 0 })

	text, err := os.ReadFile(g.path("hearth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	g.write(string(text), "keep_warm: sun-sat", "keep_warm: "+away)
	g.signal(syscall.SIGHUP)
	g.until("it sleeps in outside of its hours", func() bool { return g.status(gemma) == -2 && len(g.engines()) == 0 })
	g.write(string(text))
	g.signal(syscall.SIGHUP)
	g.until("it is up again in its hours", func() bool { return g.status(gemma) == 0 })
}

// What a real clock brings when the minute comes: hours that end and that begin, for nodes and for what is kept warm.
func TestClock(t *testing.T) {
	if !*full {
		t.Skip("takes up to 80 s: -args -full")
	}
	t.Parallel()
	at := time.Now().UTC().Add(20 * time.Second).Truncate(time.Minute).Add(time.Minute)
	until, from := at.Add(-time.Hour).Format("15:04")+at.Format("-15:04"), at.Format("15:04-")+at.Add(time.Hour).Format("15:04")
	node := func(name, available, slots string) string {
		return fmt.Sprintf("  - {name: %s, available: %q, slots: [\n%s    ]}\n", name, available, slots)
	}
	g := nodes(t, node("ends", until, place("gemma", gemma, quick(t, gemma, "--tokens-per-second", "2"), ""))+
		node("begins", from, place("exaone", exaone, quick(t, exaone), fmt.Sprintf(", keep_warm: %q", from)))+
		node("cools", "sun-sat", place("third", third, quick(t, third), fmt.Sprintf(", idle_sleep: 1s, keep_warm: %q", until)))+
		node("warms", "sun-sat", place("embed", embed, quick(t, embed), fmt.Sprintf(", keep_warm: %q", from))), gemma)
	s := g.stream(ask(gemma, endless))
	s.next(t)
	g.until("one is warm", func() bool { return g.status(third) == 0 })
	if a, b := g.status(exaone), g.status(embed); a != -10 || b != -2 {
		t.Fatalf("before its hours one has status %d, and one to be kept warm %d", a, b)
	}
	g.loading(g.chat(ask(exaone, "")))
	if now := time.Now(); !now.Before(at) {
		t.Skipf("the machine was too slow: it is %s, %s after the minute", now, now.Sub(at))
	}

	<-time.After(time.Until(at) - time.Second)
	if a, b, c, d := g.status(gemma), g.status(exaone), g.status(third), g.status(embed); time.Now().Before(at) && (a != 0 || b != -10 || c != 0 || d != -2) {
		t.Errorf("a second before the minute: status %d, %d, %d and %d", a, b, c, d)
	}
	g.until("hours end and begin", func() bool {
		return g.status(gemma) == -10 && g.status(exaone) == 0 && g.status(third) == -2 && g.status(embed) == 0
	})
	if now := time.Now(); now.Before(at) {
		t.Errorf("it is %s yet", now)
	}
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
	s.next(t) // what has begun goes on
	if g.engineOf(gemma) == 0 {
		t.Error("the engine of a stream was ended")
	}
	s.resp.Body.Close()
	g.until("then the engine ends", func() bool { return g.engineOf(gemma) == 0 })
	g.served(g.chat(ask(exaone, ""), "X-MyIP-Max-Wait", "0"), local, exaone)
}
