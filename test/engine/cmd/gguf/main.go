// Command gguf writes a tiny model file that answers every prompt with the same words.
//
//	gguf -o a.gguf -name tiny-a -say "I am tiny-a, a scripted model."
//	gguf -o t.gguf -think "The user wants the weather." -tool weather -arguments '{"city": "Seoul"}'
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"myip.co.kr/hearth/test/engine/gguf"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gguf:", err)
		os.Exit(1)
	}
}

func run() error {
	var m gguf.Model
	out := flag.String("o", "tiny.gguf", "file to write")
	flag.StringVar(&m.Name, "name", "tiny", "name of the model")
	say := flag.String("say", "", `answer (default "I am NAME, …", or nothing beside -tool)`)
	think := flag.String("think", "", "reasoning before the answer")
	tool := flag.String("tool", "", "tool that the answer calls")
	arguments := flag.String("arguments", "{}", "arguments of the call, JSON")
	flag.BoolVar(&m.Loop, "loop", false, "begin again instead of ending")
	flag.IntVar(&m.Context, "ctx", 2048, "trained window in tokens")
	flag.IntVar(&m.Layers, "layers", 1, "layers of zero weights: larger file, slower tokens")
	flag.IntVar(&m.FeedForward, "ffn", 64, "width of their feed-forward part, likewise")
	flag.BoolVar(&m.NoTools, "no-tools", false, "chat template without tools")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("read the command line: %q is too much", flag.Arg(0))
	}
	m.Say = answer(m.Name, *say, *think, *tool, *arguments)
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	return errors.Join(m.Write(f), f.Close())
}

func answer(name, say, think, tool, arguments string) string {
	if say == "" && tool == "" {
		say = "I am " + name + ", a scripted model inside the real llama.cpp. Each of these words is one token."
	}
	if tool != "" {
		say += "\n" + gguf.Tool(tool, arguments)
	}
	if think != "" {
		say = "<think>\n" + think + "\n</think>\n" + say
	}
	return say
}
