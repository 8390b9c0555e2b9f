package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/app"
)

type explainCmd struct {
	configFlag
	File string `short:"f" required:"" placeholder:"FILE" help:"Request body, as for /chat/completions; - for standard input."`
	URL  string `name:"url" xor:"whose" placeholder:"URL" help:"Ask the gateway running there, e.g. http://127.0.0.1:8800/api/v1, with the key in MYIP_API_KEY, instead of the configuration."`
	Key  string `name:"key" xor:"whose" placeholder:"NAME" help:"Whose request it is: a key's name, id or label. Its policy counts, what it has spent does not. Without it, a key that may do everything."`
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
	x, err := app.Explain(ctx, cfg, body, c.Key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(x)
}

// ask lets a running gateway build the chain from its present state.
func (c *explainCmd) ask(ctx context.Context, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("read --url: %w", err)
	}
	if strings.Trim(base.Path, "/") == "" {
		base.Path = "/api/v1" // as the other orders have it, and clients that are given the host alone
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base.JoinPath("chain").String(), bytes.NewReader(body))
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
