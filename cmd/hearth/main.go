// Command hearth is the gateway: your own GPU first on every request, the providers you buy from behind it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/engine"
)

// commands is the command line. Each command stands in a file of its own.
type commands struct {
	Serve   serveCmd   `cmd:"" help:"Run the gateway with your configuration."`
	Node    nodeCmd    `cmd:"" help:"Run the slots of this machine for gateways on other ones."`
	Demo    demoCmd    `cmd:"" help:"Run a gateway with simulated engines and providers, to try things out. Needs nothing, leaves nothing."`
	Check   checkCmd   `cmd:"" help:"Check a configuration file and say everything that is wrong with it."`
	Explain explainCmd `cmd:"" help:"Show the chain that a request would get, and why, without calling anybody."`
	Keys    keysCmd    `cmd:"" help:"Create, list, change and disable API keys."`
	Report  reportCmd  `cmd:"" help:"Show what a month was: local and external, and why requests left the house."`
	Records recordsCmd `cmd:"" help:"Export the records of requests, and check every bill."`
	Prices  pricesCmd  `cmd:"" help:"Print what callers pay, and compare with published price lists."`
	Quality qualityCmd `cmd:"" help:"Flag endpoints of a running gateway whose answers are worse than they should be."`

	Simulate simulateCmd `cmd:"" help:"Try out in virtual time how a traffic would be served."`

	Slots   slotsCmd   `cmd:"" group:"Slots of a running gateway" help:"Show what the slots do."`
	Logs    logsCmd    `cmd:"" group:"Slots of a running gateway" help:"Print what a slot's engine wrote."`
	Wake    wakeCmd    `cmd:"" group:"Slots of a running gateway" help:"Start a slot's engine."`
	Sleep   sleepCmd   `cmd:"" group:"Slots of a running gateway" help:"Stop a slot's engine; the next request wakes it."`
	Drain   drainCmd   `cmd:"" group:"Slots of a running gateway" help:"Stop a slot's engine and let no request in."`
	Disable disableCmd `cmd:"" group:"Slots of a running gateway" help:"Take a slot out of all chains."`
	Enable  enableCmd  `cmd:"" group:"Slots of a running gateway" help:"Let requests in again after drain or disable."`
	Pause   pauseCmd   `cmd:"" group:"Slots of a running gateway" help:"Give a node back to its owner for a while."`
	Resume  resumeCmd  `cmd:"" group:"Slots of a running gateway" help:"End a pause."`

	Version kong.VersionFlag `help:"Print the version."`
}

// streams are what a command reads and writes: real files, or a test's.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() { os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})) }

// run is main without the process around it.
func run(args []string, std streams) int {
	if len(args) > 0 && args[0] == "engine" { // the simulated engine of hearth demo: not a command for people
		return engine.Main(args[1:])
	}
	var c commands
	exit := -1
	parser, err := kong.New(&c, kong.Name("hearth"), kong.UsageOnError(), kong.Writers(std.out, std.err),
		kong.Vars{"version": version()}, kong.Exit(func(code int) { exit = code }),
		kong.Description("A self-hosted, OpenRouter-compatible gateway for language models: your own GPU first."),
		kong.BindTo(context.Background(), (*context.Context)(nil)), kong.Bind(std))
	if err != nil {
		fmt.Fprintln(std.err, "hearth:", err)
		return 2
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(negatives(args))
	if exit >= 0 { // --help and --version have said what there is to say
		return exit
	}
	if err != nil {
		fmt.Fprintf(std.err, "hearth: %s\nTry: %s --help\n", mistake(err), meant(err))
		return 2
	}
	if err := parsed.Run(); err != nil {
		return report(std.err, err)
	}
	return 0
}

// meant is the command whose help explains a mistake on the command line.
func meant(err error) string {
	if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context.Selected() != nil {
		return "hearth " + p.Context.Selected().Path()
	}
	return "hearth"
}

// report prints an error; what is wrong with a configuration gets a line per problem.
func report(w io.Writer, err error) int {
	var problems config.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Fprintln(w, p)
		}
		fmt.Fprintf(w, "hearth: the configuration has %s\n", count(len(problems), "problem"))
		return 1
	}
	fmt.Fprintln(w, "hearth:", plain(err))
	return 1
}

// plain is the text of an error for people: that of an error meant for callers of the API goes without its type.
func plain(err error) string {
	e, ok := errors.AsType[*hearth.Error](err)
	if !ok || err.Error() != e.Error() { // inside of another one it belongs to that one's sentence
		return err.Error()
	}
	text := e.Message
	if e.Param != "" && !strings.Contains(text, e.Param) {
		text = e.Param + ": " + text
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
		}
	}
	return v
}

// logging are the flags of commands that run for long.
type logging struct {
	LogLevel  string `default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" help:"Least level that is logged: debug, info, warn or error (default: ${default})."`
	LogFormat string `default:"text" enum:"text,json" placeholder:"FORMAT" help:"Format of the log: text or json (default: ${default})."`
}

func (l logging) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.LogLevel)) // one of the words of the flag
	o := &slog.HandlerOptions{Level: level}
	if l.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// calmGC lets the heap grow to four times what is in use before it is collected. What a request leaves behind is short-
// lived, and a heap of a few megabytes would otherwise be collected hundreds of times a second. GOGC, if set, wins.
func calmGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// quietStdlib keeps net/http's own messages out of the log: they can hold bytes that an upstream sent.
func quietStdlib() { stdlog.SetOutput(io.Discard) }
