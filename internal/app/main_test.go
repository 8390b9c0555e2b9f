package app_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"myip.co.kr/hearth/internal/engine"
)

// TestMain lets the test binary be the engine of a slot: a slot's command is os.Executable() and "engine".
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine" {
		os.Exit(engine.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "mayfly" {
		os.Exit(mayfly(os.Args[2], os.Args[3], os.Args[4]))
	}
	// The race detector has each process wait for a second before it ends, the engines too.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	together()
	os.Exit(m.Run())
}

// together has four tests run at once, unless -parallel says otherwise: most of their time they wait for engines.
func together() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
}
