package main

import "fmt"

type checkCmd struct {
	File string `arg:"" default:"hearth.yaml" help:"Configuration file (default: ${default})."`
}

// Run reads the file as serve would and says what it found.
func (c *checkCmd) Run(std streams) error {
	cfg, err := configFlag{c.File}.load()
	if err != nil {
		return err
	}
	cat, err := cfg.Catalog()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintf(std.err, "warning: %s\n", w)
	}
	local := 0
	for _, e := range cat.Endpoints {
		if e.Local() {
			local++
		}
	}
	_, err = fmt.Fprintf(std.out, "%s is good: %s on %s and %s\n", c.File,
		count(len(cat.Models), "model"), count(local, "local slot"), count(len(cat.Endpoints)-local, "external endpoint"))
	return err
}
