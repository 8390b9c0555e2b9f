// Package estimate guesses how many tokens a text has for a language model, without a tokenizer.
package estimate

// JSON is a generous count of the tokens in raw JSON text.
func JSON(raw []byte) int { return len(raw)/3 + 1 }
