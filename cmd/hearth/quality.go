package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
)

// qualityCmd speaks of endpoints whose answers are worse than they should be.
type qualityCmd struct {
	List   qualityListCmd   `cmd:"" default:"withargs" help:"Show the endpoints whose quality is in doubt."`
	Flag   qualityFlagCmd   `cmd:"" help:"Flag an endpoint: it gets few requests as long as another one has room."`
	Clear  qualityClearCmd  `cmd:"" help:"Take the flag of an endpoint back."`
	Import qualityImportCmd `cmd:"" help:"Take the scores of a benchmark in."`
}

type qualityRow struct {
	Endpoint string `json:"endpoint"`
	By       string `json:"by"`
	Reason   string `json:"reason"`
}

type qualityListCmd struct {
	gatewayFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the flags.
func (c *qualityListCmd) Run(ctx context.Context, std streams) error {
	b, err := c.ask(ctx, std, "GET", "/quality", nil)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := std.out.Write(append(b, '\n'))
		return err
	}
	return printFlags(std.out, b)
}

// ask sends a request to the gateway and returns its answer.
func (g gatewayFlags) ask(ctx context.Context, std streams, method, path string, body []byte) ([]byte, error) {
	c, err := g.dial(ctx, std)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, method, path, body)
}

func printFlags(out io.Writer, b []byte) error {
	var list struct {
		Data []qualityRow `json:"data"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("read the gateway's answer: %w", err)
	}
	if len(list.Data) == 0 {
		_, err := fmt.Fprintln(out, "no endpoint's quality is in doubt")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENDPOINT\tBY\tREASON")
	for _, r := range list.Data {
		fmt.Fprintf(t, "%s\t%s\t%s\n", safe(r.Endpoint), safe(r.By), safe(r.Reason))
	}
	return t.Flush()
}

// qualityOrder is what is ordered of one endpoint.
type qualityOrder struct {
	Endpoint string `json:"endpoint"`
	Flagged  bool   `json:"flagged"`
	Reason   string `json:"reason,omitempty"`
}

func (g gatewayFlags) doubt(ctx context.Context, std streams, o qualityOrder) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	b, err := g.ask(ctx, std, "PUT", "/quality", body)
	if err != nil {
		return err
	}
	return printFlags(std.out, b)
}

type qualityFlagCmd struct {
	gatewayFlags
	Endpoint string `arg:"" help:"Id of the endpoint, as hearth explain shows it, such as acme:google/gemma-4-26b-a4b."`
	Reason   string `required:"" placeholder:"TEXT" help:"Why: it is shown wherever the endpoint is."`
}

// Run flags an endpoint.
func (c *qualityFlagCmd) Run(ctx context.Context, std streams) error {
	return c.doubt(ctx, std, qualityOrder{c.Endpoint, true, c.Reason})
}

type qualityClearCmd struct {
	gatewayFlags
	Endpoint string `arg:"" help:"Id of the endpoint, as hearth quality shows it."`
}

// Run takes a flag back.
func (c *qualityClearCmd) Run(ctx context.Context, std streams) error {
	return c.doubt(ctx, std, qualityOrder{Endpoint: c.Endpoint})
}

type qualityImportCmd struct {
	gatewayFlags
	File   string `arg:"" help:"CSV with a head of model,provider,score and perhaps sigma, or a JSON list of objects with these keys; - is standard input."`
	DryRun bool   `help:"Only say what it would do."`
}

// Help is the long help of the command.
func (qualityImportCmd) Help() string {
	return `Each row is the score of a model at a provider, by its slug or as slug/variant; more is better. A provider
whose score lies more than two sigma below the median of the model's scores in the file is flagged; one that is
back within two sigma is not any more. sigma is the standard error of the score; without it it is told from the
spread of the model's scores, of which there must be four. Rows of models and providers that the gateway does not
have count for the median and are otherwise left aside.

  model,provider,score,sigma
  google/gemma-4-26b-a4b,acme,0.71,0.02
  google/gemma-4-26b-a4b,beta/fp8,0.64,0.02`
}

// Run takes a benchmark in.
func (c *qualityImportCmd) Run(ctx context.Context, std streams) error {
	const most = 8 << 20
	in := std.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return fmt.Errorf("read the benchmark: %w", err)
	}
	path := "/quality/benchmark"
	if c.DryRun {
		path += "?dry=true"
	}
	b, err := c.ask(ctx, std, "POST", path, body)
	if err != nil {
		return err
	}
	var got struct {
		Data struct {
			Flagged []string `json:"flagged"`
			Cleared []string `json:"cleared"`
			Fine    []string `json:"fine"`
			Others  int      `json:"others"`
		} `json:"data"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		return fmt.Errorf("read the gateway's answer: %w", err)
	}
	d := &got.Data
	for _, l := range []struct {
		word string
		ids  []string
	}{{"flagged", d.Flagged}, {"not any more", d.Cleared}} {
		if len(l.ids) > 0 {
			fmt.Fprintf(std.out, "%s: %s\n", l.word, safe(strings.Join(l.ids, ", ")))
		}
	}
	_, err = fmt.Fprintf(std.out, "%s as good as usual, %s of what is not here\n", count(len(d.Fine), "endpoint"), count(d.Others, "score"))
	return err
}
