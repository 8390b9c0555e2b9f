package config

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"time"
)

// Content says whether prompts and answers are kept, and how. They stand apart from the records, in content.db of data_dir.
type Content struct {
	// Log is whether they are kept. What is kept is redacted before it is written, and deleted after max_age.
	Log string `yaml:"log" default:"off" enum:"off on"`
	// Keys are the names or ids of the keys whose prompts and answers are kept. Default: all keys. A key may forbid it
	// (hearth keys set --content never).
	Keys []string `yaml:"keys" example:"[support-bot]"`
	// MaxBytes is how much is kept of a prompt, and of an answer; from the beginning. Data of images and sound is never
	// kept.
	MaxBytes Size `yaml:"max_bytes" default:"64KiB" min:"1KiB" max:"4MiB"`
	// MaxAge is how long they are kept, counted from the arrival of the request; not longer than the record.
	MaxAge time.Duration `yaml:"max_age" default:"7d" min:"1m" max:"36500d" example:"24h"`
	// MaxSize is how large the file may grow before the oldest are deleted.
	MaxSize Size `yaml:"max_size" default:"1GiB" min:"1MiB" max:"1TiB"`
	// Redact are regular expressions (RE2, as in Go) of what is replaced by [redacted], in addition to redact_defaults: 32
	// of up to 512 bytes each.
	Redact []string `yaml:"redact" example:"['PROJECT-[0-9]+', '(?i)falcon']"`
	// RedactDefaults replaces API keys, bearer and basic tokens, JWTs, private keys, e-mail addresses, numbers of payment
	// cards, Korean resident registration numbers and telephone numbers.
	RedactDefaults bool `yaml:"redact_defaults" default:"true"`
}

// Bounds on the regular expressions.
const (
	maxPatterns     = 32
	maxPatternBytes = 512
)

func (k *checker) content(path string, c *Content) {
	for i, name := range c.Keys {
		here := at(path+".keys", i)
		if name == "" {
			k.add(here, "is empty", "write the name or the id of a key")
		}
		k.plain(here, name, maxName)
	}
	if len(c.Redact) > maxPatterns {
		k.add(path+".redact", "has more than "+strconv.Itoa(maxPatterns)+" regular expressions", "join some of them with |")
	}
	for i, p := range c.Redact {
		here := at(path+".redact", i)
		if len(p) > maxPatternBytes {
			k.add(here, "is longer than "+strconv.Itoa(maxPatternBytes)+" bytes", "split it")
			continue
		}
		re, err := regexp.Compile(p)
		switch {
		case err != nil:
			k.add(here, "is not a regular expression that can be used: "+reasonOf(err), "write RE2 (https://github.com/google/re2/wiki/Syntax), in single quotes")
		case re.MatchString(""):
			k.add(here, "matches the empty text", "write what must at least be there, such as + in place of *")
		}
	}
}

// reasonOf is why a regular expression was refused, without the expression.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return e.Code.String()
	}
	return "it cannot be read"
}

func (w *warner) content(path string, c *Content) {
	if c.Log != "on" {
		return
	}
	if !c.RedactDefaults {
		w.add(path+".redact_defaults", "is off: secrets and personal data in prompts and answers are written to disk", "write true")
	}
	if age := w.c.Records.MaxAge; age > 0 && age < c.MaxAge {
		w.add(path+".max_age", "is longer than records.max_age: prompts and answers are deleted with their records", "")
	}
}
