package config

import (
	"testing"

	"myip.co.kr/hearth"
)

func TestSlot_Concurrency(t *testing.T) {
	for name, c := range map[string]struct {
		slot Slot
		want int
	}{
		"nothing says it":                {Slot{Command: []string{"vllm", "serve", "--port", "${port}"}}, 0},
		"vLLM's flag":                    {Slot{Command: []string{"vllm", "serve", "--max-num-seqs", "16"}}, 16},
		"with a sign between":            {Slot{Command: []string{"vllm", "serve", "--max-num-seqs=8", "--port", "1"}}, 8},
		"with underscores":               {Slot{Command: []string{"vllm", "serve", "--max_num_seqs", "4"}}, 4},
		"the last one of two":            {Slot{Command: []string{"vllm", "--max-num-seqs", "4", "--max-num-seqs", "5"}}, 5},
		"SGLang's flag":                  {Slot{Command: []string{"python", "-m", "sglang.launch_server", "--max-running-requests", "12"}}, 12},
		"Ollama's variable":              {Slot{Command: []string{"ollama", "serve"}, Env: map[string]hearth.Secret{"OLLAMA_NUM_PARALLEL": "3"}}, 3},
		"what is configured comes first": {Slot{Concurrency: 2, Command: []string{"vllm", "--max-num-seqs", "16"}, Env: map[string]hearth.Secret{"OLLAMA_NUM_PARALLEL": "3"}}, 2},
		"no value behind it":             {Slot{Command: []string{"vllm", "--max-num-seqs"}}, 0},
		"no number":                      {Slot{Command: []string{"vllm", "--max-num-seqs", "many"}}, 0},
		"none at once":                   {Slot{Command: []string{"vllm", "--max-num-seqs=0"}}, 0},
		"fewer than none":                {Slot{Command: []string{"vllm", "--max-num-seqs", "-4"}}, 0},
		"more than there may be":         {Slot{Command: []string{"vllm", "--max-num-seqs", "99999999999999999999"}}, 0},
		"another flag of that beginning": {Slot{Command: []string{"vllm", "--max-num-seqs-x", "7"}}, 0},
	} {
		if got := c.slot.concurrency(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
