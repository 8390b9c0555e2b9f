package main

import (
	"fmt"
	"os"

	"myip.co.kr/hearth/internal/config"
)

type checkCmd struct {
	File string `arg:"" default:"hearth.yaml" help:"Configuration file (${default})."`
}

// Run reads the file as serve would and says what it found.
func (c *checkCmd) Run(std streams) error {
	cfg, err := config.Load(c.File, os.LookupEnv)
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
	_, err = fmt.Fprintf(std.out, "%s is good: %d models, %d local and %d external endpoints, %d nodes\n",
		c.File, len(cat.Models), local, len(cat.Endpoints)-local, len(cat.Nodes))
	return err
}
