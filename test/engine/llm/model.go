// Package llm runs a model with the real llama.cpp libraries, without a C compiler.
package llm

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ebitengine/purego"
	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/utils"
)

// Options say what to load.
type Options struct {
	Lib       string // directory of libllama.so, libggml.so and its backends
	Model     string // GGUF file
	Context   int    // window of each sequence in tokens, 0 = what the model was trained with; rounded up to 256
	Sequences int    // answers made at once
	Threads   int    // of each sequence; more than there are cores makes it hundreds of times slower
	Log       io.Writer
}

// Token is a number in the model's vocabulary.
type Token = llama.Token

// Model is a loaded model. Its methods may be called at any time by anybody; a Sequence belongs to one user.
type Model struct {
	model     llama.Model
	vocab     llama.Vocab
	template  string
	window    int
	sequences []*Sequence
}

// Init loads the libraries. It may be called once.
func Init(lib string, log io.Writer) error {
	if err := llama.Load(lib); err != nil {
		return fmt.Errorf("load the llama.cpp libraries: %w", err)
	}
	llama.LogSet(logTo(log))
	llama.Init()
	return nil
}

// Levels of llama.cpp's log.
const (
	levelWarn = 3
	levelMore = 5 // goes on with the line before
)

// logTo makes a callback that passes on warnings and errors.
func logTo(w io.Writer) uintptr {
	shown := false
	return purego.NewCallback(func(level int32, text *byte, _ uintptr) uintptr {
		if level != levelMore {
			shown = level >= levelWarn
		}
		if shown {
			_, _ = io.WriteString(w, utils.BytePtrToString(text)) // a log that cannot be written ends nothing
		}
		return 0
	})
}

// Load reads a model and makes its sequences. Init comes first.
func Load(o Options) (*Model, error) {
	handle, err := llama.ModelLoadFromFile(o.Model, llama.ModelDefaultParams())
	if err != nil {
		return nil, fmt.Errorf("load model %s: %w", o.Model, err)
	}
	m := &Model{model: handle, vocab: llama.ModelGetVocab(handle), template: llama.ModelChatTemplate(handle, "")}
	if o.Context == 0 {
		o.Context = int(llama.ModelNCtxTrain(handle))
	}
	m.window = (o.Context + 255) / 256 * 256
	for range o.Sequences {
		s, err := m.sequence(o.Threads)
		if err != nil {
			return nil, err
		}
		m.sequences = append(m.sequences, s)
	}
	return m, nil
}

// Sequences are the places in which answers are made.
func (m *Model) Sequences() []*Sequence { return m.sequences }

// Window of one sequence in tokens, prompt and answer together.
func (m *Model) Window() int { return m.window }

// Facts are what a model file says of itself.
type Facts struct {
	Trained, Vocabulary, Embedding int
	Parameters, Bytes              uint64
	Format                         string // of the weights
	Template                       string // of chats, Jinja
}

// Facts returns what the model says of itself.
func (m *Model) Facts() Facts {
	return Facts{
		Trained:    int(llama.ModelNCtxTrain(m.model)),
		Vocabulary: int(llama.VocabNTokens(m.vocab)),
		Embedding:  int(llama.ModelNEmbd(m.model)),
		Parameters: llama.ModelNParams(m.model),
		Bytes:      llama.ModelSize(m.model),
		Format:     llama.FtypeName(llama.ModelFtype(m.model)),
		Template:   m.template,
	}
}

// Tokenize cuts a text into tokens; special adds those that begin a prompt, parse reads the names of special tokens.
func (m *Model) Tokenize(text string, special, parse bool) []Token {
	if text == "" && !special {
		return nil
	}
	return llama.Tokenize(m.vocab, text, special, parse)
}

// Message is one turn of a chat.
type Message struct{ Role, Content string }

// Prompt applies the model's chat template, up to where the answer begins.
func (m *Model) Prompt(messages []Message) (string, error) {
	size := 1024
	chat := make([]llama.ChatMessage, len(messages))
	for i, msg := range messages {
		// A C string ends at its first zero byte.
		chat[i] = llama.NewChatMessage(strings.ReplaceAll(msg.Role, "\x00", ""), strings.ReplaceAll(msg.Content, "\x00", ""))
		size += len(msg.Role) + len(msg.Content) + 64
	}
	buf := make([]byte, size)
	n := int(llama.ChatApplyTemplate(m.template, chat, true, buf))
	if n <= 0 || n > len(buf) {
		return "", errors.New("this custom template is not supported")
	}
	return string(buf[:n]), nil
}
