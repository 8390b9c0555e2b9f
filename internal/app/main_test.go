package app_test

import (
	"os"
	"testing"

	"myip.co.kr/hearth/internal/engine"
)

// TestMain lets the test binary be the engine of a slot: a slot's command is os.Executable() and "engine".
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine" {
		os.Exit(engine.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}
