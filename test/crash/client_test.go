package crash

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// clientEnv makes the test binary ask for answers instead of running tests: the directory of its notes.
const clientEnv = "HEARTH_CRASH_CLIENT"

const clientWorkers = 8

// note is what the client has seen of an answer.
type note struct {
	ID     string         `json:"id"`
	Number int            `json:"number"`
	Model  string         `json:"model"`
	Whole  bool           `json:"whole"` // the last byte was read; else the first piece of a stream
	Cost   jsontext.Value `json:"cost,omitzero"`
}

// clientMain asks the gateway until standard input ends. Every answer whose last byte was read is noted, and the note is
// on the disk before the next question.
func clientMain(dir string) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var wg sync.WaitGroup
	for w := range clientWorkers {
		wg.Go(func() {
			if err := work(ctx, w, filepath.Join(dir, fmt.Sprint(w))); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		})
	}
	wg.Wait()
}

func work(ctx context.Context, worker int, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	write := func(n note) error {
		b, err := json.Marshal(n)
		if err == nil {
			_, err = f.Write(append(b, '\n'))
		}
		return err
	}
	pause := time.NewTicker(2 * time.Millisecond) // while the gateway is down
	defer pause.Stop()
	for number := worker; ctx.Err() == nil; number += clientWorkers {
		n := note{Number: number, Model: models[number/clientWorkers%len(models)]}
		var err error
		if number%3 == 0 {
			err = askWhole(&n)
		} else {
			err = askStream(&n, write)
		}
		if err != nil { // the gateway was killed
			<-pause.C
			continue
		}
		n.Whole = true
		if err := errors.Join(write(n), f.Sync()); err != nil {
			return err
		}
	}
	return nil
}

func send(n *note, stream string) (*http.Response, error) {
	body := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "number %d"}]%s}`, n.Model, n.Number, stream)
	req, err := http.NewRequest(http.MethodPost, "http://"+os.Getenv("HEARTH_CRASH_ADDRESS")+"/api/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("HEARTH_CRASH_KEY"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			fmt.Fprintf(os.Stderr, "%s %s\n", resp.Status, b)
		}
		return nil, errors.New(resp.Status)
	}
	n.ID = resp.Header.Get("X-Generation-Id")
	return resp, nil
}

type answer struct {
	Usage struct {
		Cost jsontext.Value `json:"cost"`
	} `json:"usage"`
}

func askWhole(n *note) error {
	resp, err := send(n, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var a answer
	if err := json.Unmarshal(b, &a); err != nil {
		return err
	}
	n.Cost = a.Usage.Cost
	return nil
}

// askStream reads a stream to its end, and notes its first piece.
func askStream(n *note, write func(note) error) error {
	resp, err := send(n, `, "stream": true`)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	done, begun := false, false
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && done && n.Cost != nil {
			return nil
		}
		if err != nil {
			return errors.Join(err, errors.New("a stream was cut"))
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		switch {
		case !ok:
		case string(data) == "[DONE]":
			done = true
		default:
			var a answer
			if err := json.Unmarshal(data, &a); err != nil {
				return err
			}
			if a.Usage.Cost != nil {
				n.Cost = a.Usage.Cost.Clone()
			}
			if !begun {
				begun = true
				if err := write(*n); err != nil {
					return err
				}
			}
		}
	}
}
