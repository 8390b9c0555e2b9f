package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"myip.co.kr/hearth/internal/app"
)

type keysCmd struct {
	Create  keysCreateCmd  `cmd:"" help:"Create a key. It is shown this once."`
	List    keysListCmd    `cmd:"" help:"List the keys."`
	Disable keysDisableCmd `cmd:"" help:"Disable a key: requests with it get 401."`
}

type keysCreateCmd struct {
	configFlag
	Name  string `arg:"" help:"What to call the key, e.g. the program that will use it."`
	Admin bool   `help:"The key may also use the admin routes."`
}

// Run creates a key and prints it alone on standard output, so that scripts can take it.
func (c *keysCreateCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(k *app.Keys) error {
		plain, key, err := k.Create(ctx, c.Name, c.Admin)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.err, "created %s (%s), shown this once:\n", key.ID, key.Name)
		_, err = fmt.Fprintln(std.out, plain)
		return err
	})
}

type keysListCmd struct{ configFlag }

// Run prints a line per key.
func (c *keysListCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(k *app.Keys) error {
		keys, err := k.List(ctx)
		if err != nil {
			return err
		}
		tw := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "ID\tKEY\tNAME\tROLE\tSTATE\tCREATED")
		for _, key := range keys {
			role, state := "user", "enabled"
			if key.Admin {
				role = "admin"
			}
			if key.Disabled {
				state = "disabled"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.Label, key.Name, role, state, key.CreatedAt.Local().Format(time.DateTime))
		}
		return tw.Flush()
	})
}

type keysDisableCmd struct {
	configFlag
	Key string `arg:"" help:"Id, name or label of the key (see hearth keys list)."`
}

// Run disables a key; a running gateway refuses it within a second.
func (c *keysDisableCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(k *app.Keys) error {
		key, err := k.Disable(ctx, c.Key)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.out, "disabled %s (%s)\n", key.ID, key.Name)
		return err
	})
}

// with opens the keys of the configuration, which a running gateway may have open too.
func (f configFlag) with(ctx context.Context, do func(*app.Keys) error) error {
	cfg, err := f.loadQuietly()
	if err != nil {
		return err
	}
	k, err := app.OpenKeys(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(do(k), k.Close())
}
