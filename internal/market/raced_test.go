//go:build race

package market

// raced says whether the race detector looks on.
const raced = true
