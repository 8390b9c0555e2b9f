package journal

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// childEnv makes the test binary write records instead of running tests: "dir durability".
const childEnv = "HEARTH_JOURNAL_CHILD"

// childMain appends from several goroutines for ever and prints every sequence it was given.
func childMain() {
	dir, durability, _ := strings.Cut(os.Getenv(childEnv), " ")
	j, err := Open(Options{Dir: dir, Durability: Durability(durability), SegmentBytes: 64 << 10})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var out sync.Mutex
	for range 4 {
		go func() {
			for {
				payload := strings.Repeat("x", rand.IntN(2000)+1)
				seq, err := j.Append([]byte(payload))
				out.Lock()
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Printf("%d %d\n", seq, len(payload))
				out.Unlock()
			}
		}()
	}
	select {}
}

// TestKill kills a writing process and looks for every record it had acknowledged.
func TestKill(t *testing.T) {
	for _, durability := range []Durability{Process, Power} {
		t.Run(string(durability), func(t *testing.T) {
			dir := t.TempDir()
			acknowledged := map[uint64]int{}
			for round := range 4 {
				killOnce(t, dir, durability, 50+rand.IntN(400), acknowledged)
				j := mustOpen(t, Options{Dir: dir, Durability: durability, SegmentBytes: 64 << 10})
				found := map[uint64]int{}
				if err := j.Replay(1, func(seq uint64, payload []byte) error {
					found[seq] = len(payload)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				for seq, n := range acknowledged {
					if found[seq] != n {
						t.Fatalf("round %d: record %d has %d bytes, %d were acknowledged", round, seq, found[seq], n)
					}
				}
				mustClose(t, j)
			}
		})
	}
}

// killOnce runs the child until it has acknowledged n records, kills it and adds all it acknowledged to the map.
func killOnce(t *testing.T, dir string, durability Durability, n int, acknowledged map[uint64]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir+" "+string(durability))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	before := len(acknowledged)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		a, b, ok := strings.Cut(lines.Text(), " ")
		seq, err1 := strconv.ParseUint(a, 10, 64)
		size, err2 := strconv.Atoi(b)
		if !ok || err1 != nil || err2 != nil {
			continue // the line the kill cut off
		}
		if acknowledged[seq] != 0 {
			t.Errorf("sequence %d was given twice", seq)
		}
		acknowledged[seq] = size
		if len(acknowledged) == before+n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // says "killed"
	if len(acknowledged) < before+n {
		t.Fatalf("the child acknowledged %d records, want %d", len(acknowledged)-before, n)
	}
}
