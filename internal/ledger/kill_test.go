package ledger

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/store"
)

// childEnv makes the test binary record generations instead of running tests: "dir round".
const childEnv = "HEARTH_LEDGER_CHILD"

// childMain records from several goroutines for ever and prints every id that was taken.
func childMain() {
	dir, round, _ := strings.Cut(os.Getenv(childEnv), " ")
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), SegmentBytes: 64 << 10})
	fail(err)
	s, err := store.Open(context.Background(), filepath.Join(dir, "hearth.db"))
	fail(err)
	l, err := Open(context.Background(), j, s, nil)
	fail(err)
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("gen-%s-%d-%d", round, w, i)
				fail(l.Record(sample(id)))
				fmt.Println(id)
			}
		}()
	}
	select {}
}

// TestKill kills a recording process and looks for every record it had taken.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	taken := map[string]bool{}
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", childEnv, dir, round))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		before, n := len(taken), 300+rand.IntN(1000) // a segment holds fewer
		for lines := bufio.NewScanner(out); lines.Scan(); {
			taken[lines.Text()] = true
			if len(taken) == before+n {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // says "killed"
		if len(taken) < before+n {
			t.Fatalf("the child recorded %d, want %d", len(taken)-before, n)
		}
		b := open(t, dir, journal.Options{SegmentBytes: 64 << 10})
		for id := range taken {
			if _, err := b.store.Record(t.Context(), id); err != nil {
				t.Fatalf("round %d: record %s was taken and is not in the store: %v", round, id, err)
			}
		}
		// Up to four more were written and not yet told of, and each counts once in the spend.
		rows, err := b.store.Generations(t.Context())
		if err != nil || rows < len(taken) || rows > len(taken)+4*(round+1) {
			t.Errorf("round %d: %d rows, %v, want %d and a few", round, rows, err, len(taken))
		}
		checkStore(t, b, rows)
		b.end(t)
	}
}
