package gguf

import (
	"fmt"
	"io"
	"strings"
)

// Model is what a model file is made of.
type Model struct {
	Name string // general.name, default "tiny"
	Say  string // the answer to every prompt; it may hold <think>…</think> and <tool_call>…</tool_call>
	Loop bool   // it begins again instead of ending

	Context int // trained window in tokens, default 2048

	// Layers (default 1) and FeedForward (default 64) of zero weights make the file larger and every token slower:
	// each layer has 4·D·D + 3·D·F weights of 4 bytes, where D is the number of tokens rounded up to 64.
	Layers, FeedForward int

	NoTools bool // the chat template does not know tools
}

// heads of attention; their weights are zero.
const heads = 2

// Tool is the text of an answer that calls a tool, in the form that the chat template asks for. arguments is JSON.
func Tool(name, arguments string) string {
	return fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", name, arguments)
}

// Pieces are the tokens of the answer in their order, without the one that ends it.
func (m Model) Pieces() ([]string, error) { return pieces(m.Say) }

// Write makes the file. It fails when the model says nothing or w does.
func (m Model) Write(w io.Writer) error {
	if m.Name == "" {
		m.Name = "tiny"
	}
	for _, d := range []struct {
		v   *int
		def int
	}{{&m.Context, 2048}, {&m.Layers, 1}, {&m.FeedForward, 64}} {
		if *d.v < 0 {
			return fmt.Errorf("read the model: %d is out of range", *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	script, err := m.Pieces()
	if err != nil {
		return err
	}
	v := newVocabulary(script)
	width := (len(v.texts) + 63) / 64 * 64
	return write(w, m.metadata(v, width), m.tensors(v, width))
}

// tensors of a chain: the embedding of token t is the unit vector t, attention and feed-forward add nothing, and the
// output's row of the token that follows t has 2 in column t. The norm before it stretches a unit vector to the square
// root of the width, so the one right token has a logit near 40 and all others 0.
func (m Model) tensors(v *vocabulary, width int) []tensor {
	one := func(_ int, dst []float32) {
		for i := range dst {
			dst[i] = 1
		}
	}
	before := make([][]int, len(v.texts)) // token → the tokens it follows
	for t := range v.texts {
		next := v.first // from a prompt into the script
		switch {
		case t >= v.first && t < v.last:
			next = t + 1
		case t == v.last && !m.Loop:
			next = v.end
		}
		before[next] = append(before[next], t)
	}
	ts := []tensor{{"token_embd.weight", width, len(v.texts), func(row int, dst []float32) { dst[row] = 1 }}}
	for l := range m.Layers {
		blk := fmt.Sprintf("blk.%d.", l)
		ts = append(ts,
			tensor{blk + "attn_norm.weight", width, 0, one},
			tensor{blk + "attn_q.weight", width, width, nil},
			tensor{blk + "attn_k.weight", width, width, nil},
			tensor{blk + "attn_v.weight", width, width, nil},
			tensor{blk + "attn_output.weight", width, width, nil},
			tensor{blk + "ffn_norm.weight", width, 0, one},
			tensor{blk + "ffn_gate.weight", width, m.FeedForward, nil},
			tensor{blk + "ffn_up.weight", width, m.FeedForward, nil},
			tensor{blk + "ffn_down.weight", m.FeedForward, width, nil})
	}
	return append(ts, tensor{"output_norm.weight", width, 0, one},
		tensor{"output.weight", width, len(v.texts), func(row int, dst []float32) {
			for _, t := range before[row] {
				dst[t] = 2
			}
		}})
}

func (m Model) metadata(v *vocabulary, width int) []entry {
	template := chatML
	if !m.NoTools {
		template = chatMLTools
	}
	return []entry{
		{"general.architecture", "llama"},
		{"general.name", m.Name},
		{"general.file_type", uint32(0)},
		{"llama.context_length", uint32(m.Context)},
		{"llama.embedding_length", uint32(width)},
		{"llama.block_count", uint32(m.Layers)},
		{"llama.feed_forward_length", uint32(m.FeedForward)},
		{"llama.attention.head_count", uint32(heads)},
		{"llama.attention.head_count_kv", uint32(heads)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.rope.dimension_count", uint32(width / heads)},
		{"llama.vocab_size", uint32(len(v.texts))},
		{"tokenizer.ggml.model", "llama"},
		{"tokenizer.ggml.pre", "default"},
		{"tokenizer.ggml.tokens", v.texts},
		{"tokenizer.ggml.scores", v.scores},
		{"tokenizer.ggml.token_type", v.kinds},
		{"tokenizer.ggml.bos_token_id", uint32(v.bos)},
		{"tokenizer.ggml.eos_token_id", uint32(v.end)},
		{"tokenizer.ggml.unknown_token_id", uint32(0)},
		{"tokenizer.ggml.padding_token_id", uint32(v.eos)},
		{"tokenizer.ggml.add_bos_token", true},
		{"tokenizer.ggml.add_space_prefix", false},
		{"tokenizer.chat_template", template},
	}
}

// chatML is the plain template.
const chatML = `{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}{%- endfor -%}` + prompt

// prompt is where the answer begins.
const prompt = `{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}`

// chatMLTools also tells the model which tools there are, and keeps calls and their results in the conversation.
var chatMLTools = strings.Join([]string{
	`{%- if tools -%}{{- '<|im_start|>system\n' -}}{%- if messages[0].role == 'system' -%}{{- messages[0].content + '\n' -}}{%- endif -%}`,
	`{{- '<tools>' -}}{%- for t in tools -%}{{- '\n' + (t | tojson) -}}{%- endfor -%}`,
	`{{- '\n</tools>\nAnswer with <tool_call>\n{"name": <name>, "arguments": <args>}\n</tool_call><|im_end|>\n' -}}`,
	`{%- elif messages[0].role == 'system' -%}{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' -}}{%- endif -%}`,
	`{%- for m in messages -%}{%- if m.role == 'user' -%}{{- '<|im_start|>user\n' + m.content + '<|im_end|>\n' -}}`,
	`{%- elif m.role == 'assistant' -%}{{- '<|im_start|>assistant\n' -}}{%- if m.content -%}{{- m.content -}}{%- endif -%}`,
	`{%- if m.tool_calls -%}{%- for c in m.tool_calls -%}`,
	`{{- '\n<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\n</tool_call>' -}}`,
	`{%- endfor -%}{%- endif -%}{{- '<|im_end|>\n' -}}`,
	`{%- elif m.role == 'tool' -%}{{- '<|im_start|>user\n<tool_response>\n' + m.content + '\n</tool_response><|im_end|>\n' -}}`,
	`{%- endif -%}{%- endfor -%}`, prompt}, "")
