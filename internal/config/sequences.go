package config

import (
	"strconv"
	"strings"
)

// sequenceFlags are how engines that do not say over HTTP how many requests they work on at once are told on their command
// line: vLLM's, and SGLang's.
var sequenceFlags = [...]string{"--max-num-seqs", "--max-running-requests"}

// ollamaParallel is how Ollama is told, in its environment.
const ollamaParallel = "OLLAMA_NUM_PARALLEL"

// maxConcurrency is the most that concurrency may be.
const maxConcurrency = 10000

// concurrency is how many requests the engine works on at once: as configured, else as its start line says; 0 = neither does.
func (s *Slot) concurrency() int {
	if s.Concurrency > 0 {
		return s.Concurrency
	}
	n := sequences(s.Env[ollamaParallel].Reveal())
	for i, arg := range s.Command { // of a flag that stands twice the last one holds
		name, value, joined := strings.Cut(arg, "=")
		if !joined && i+1 < len(s.Command) {
			value = s.Command[i+1]
		}
		for _, flag := range sequenceFlags {
			if strings.ReplaceAll(name, "_", "-") == flag {
				n = sequences(value)
			}
		}
	}
	return n
}

// sequences reads a number of requests at once; 0 = it is none.
func sequences(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxConcurrency {
		return 0
	}
	return n
}
