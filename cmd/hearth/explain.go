package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
)

type explainCmd struct {
	configFlag
	File string `short:"f" required:"" placeholder:"FILE" help:"Request body, as for /chat/completions; - for standard input."`
	URL  string `name:"url" placeholder:"URL" help:"Ask the gateway running there, e.g. http://127.0.0.1:8800/api/v1, with the key in MYIP_API_KEY, instead of the configuration."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// maxExplain bounds the files and answers that are read.
const maxExplain = 64 << 20

// Run prints the chain of the request.
func (c *explainCmd) Run(ctx context.Context, std streams) error {
	body, err := c.body(std.in)
	if err != nil {
		return err
	}
	var x explanation
	var raw []byte
	if c.URL != "" {
		raw, err = c.ask(ctx, body)
	} else {
		raw, err = c.local(ctx, body)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = fmt.Fprintf(std.out, "%s\n", raw)
		return err
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return fmt.Errorf("read the chain: %w", err)
	}
	return x.print(std.out)
}

func (c *explainCmd) body(in io.Reader) ([]byte, error) {
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, fmt.Errorf("read request: %w", err)
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, maxExplain))
}

// local builds the chain from the configuration alone.
func (c *explainCmd) local(ctx context.Context, body []byte) ([]byte, error) {
	cfg, err := c.loadQuietly()
	if err != nil {
		return nil, err
	}
	x, err := app.Explain(ctx, cfg, body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(x)
}

// ask lets a running gateway build the chain from its present state.
func (c *explainCmd) ask(ctx context.Context, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+"/chain", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("read --url: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("MYIP_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the gateway: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxExplain))
	if err != nil {
		return nil, fmt.Errorf("read the gateway's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(apiMessage(resp.StatusCode, b))
	}
	return b, nil
}

// apiMessage is the message of an error answer.
func apiMessage(status int, body []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Error.Message == "" {
		return fmt.Sprintf("the gateway answered %d %s", status, http.StatusText(status))
	}
	return fmt.Sprintf("the gateway answered %d: %s", status, e.Error.Message)
}

// explanation is the answer of POST /chain as far as the table shows it.
type explanation struct {
	Data struct {
		Candidates []struct {
			Model    string `json:"model"`
			Slug     string `json:"provider_slug"`
			Endpoint string `json:"endpoint"`
			Priority int    `json:"priority"`
			Reason   string `json:"reason"`
			Slot     *struct {
				State string `json:"state"`
			} `json:"slot"`
			Cost struct {
				Prompt     string `json:"prompt"`
				Completion string `json:"completion"`
				Currency   string `json:"currency"`
			} `json:"cost"`
		} `json:"candidates"`
		Dropped  []hearth.Drop `json:"dropped"`
		Notes    []string      `json:"notes"`
		Estimate int           `json:"estimate_tokens"`
	} `json:"data"`
}

func (x *explanation) print(w io.Writer) error {
	d := &x.Data
	fmt.Fprintf(w, "prompt estimate: %d tokens\n\n", d.Estimate)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\tPROVIDER\tMODEL\tPRIORITY\tSLOT\tPRICE PER 1M (IN / OUT)\tWHY HERE")
	for i, c := range d.Candidates {
		slot := "-"
		if c.Slot != nil {
			slot = c.Slot.State
		}
		fmt.Fprintf(tw, "%d.\t%s\t%s\t%d\t%s\t%s / %s %s\t%s\n", i+1, strings.TrimSuffix(c.Endpoint, ":"+c.Model), c.Model, c.Priority,
			slot, c.Cost.Prompt, c.Cost.Completion, c.Cost.Currency, c.Reason)
	}
	if len(d.Candidates) == 0 {
		fmt.Fprintln(tw, "-\tno candidate is left")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, r := range d.Dropped {
		what := r.Endpoint
		if what == "" {
			what = r.Model
		}
		fmt.Fprintf(w, "dropped: %s: %s (stage %s)\n", what, r.Reason, r.Stage)
	}
	for _, n := range d.Notes {
		fmt.Fprintln(w, "note:", n)
	}
	return nil
}
