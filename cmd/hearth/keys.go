package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

type keysCmd struct {
	Create  keysCreateCmd  `cmd:"" help:"Create a key. It is shown this once."`
	List    keysListCmd    `cmd:"" help:"List the keys, what each spent and may use."`
	Set     keysSetCmd     `cmd:"" help:"Change what a key may use."`
	Disable keysDisableCmd `cmd:"" help:"Disable a key: requests with it get 401."`
	Enable  keysEnableCmd  `cmd:"" help:"Enable a key that was disabled."`
	Delete  keysDeleteCmd  `cmd:"" help:"Delete a key for good. What was recorded of it stays."`
}

type keysCreateCmd struct {
	configFlag
	policyFlags
	Name  string `arg:"" help:"What to call the key, e.g. the program that will use it."`
	Admin bool   `help:"The key may also use the admin routes."`
}

// Run creates a key and prints it alone on standard output, so that scripts can take it.
func (c *keysCreateCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(k *app.Keys, cfg *config.Config) error {
		change, err := c.change(nowIn(cfg))
		if err != nil {
			return err
		}
		plain, key, err := k.Create(ctx, change.Apply(hearth.Key{Name: c.Name, Admin: c.Admin}))
		if err != nil {
			return err
		}
		what := key.Name
		if may := policy(key, cfg.Currency); may != everything {
			what += ": " + may
		}
		fmt.Fprintf(std.err, "created %s (%s), shown this once:\n", key.ID, what)
		_, err = fmt.Fprintln(std.out, plain)
		return err
	})
}

type keysListCmd struct{ configFlag }

// Run prints a line per key.
func (c *keysListCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(k *app.Keys, cfg *config.Config) error {
		keys, err := k.List(ctx)
		if err != nil {
			return err
		}
		spent, err := k.Spent(ctx)
		if err != nil {
			return err
		}
		tw := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "ID\tKEY\tNAME\tROLE\tSTATE\tCREATED\tSPENT\tMAY USE")
		for _, key := range keys {
			role, state := "user", "enabled"
			if key.Admin {
				role = "admin"
			}
			switch {
			case key.Deleted:
				continue
			case key.Disabled:
				state = "disabled"
			case !key.ExpiresAt.IsZero() && !time.Now().Before(key.ExpiresAt):
				state = "expired"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.Label, key.Name, role, state,
				key.CreatedAt.Local().Format(time.DateTime), spending(spent[key.ID], &key, cfg.Currency), policy(key, cfg.Currency))
		}
		return tw.Flush()
	})
}

// periods are the words for the present periods.
var periods = map[hearth.Period]string{hearth.Daily: "today", hearth.Weekly: "this week", hearth.Monthly: "this month"}

// spending is what a key spent, and of that what its limits count.
func spending(s app.KeySpend, k *hearth.Key, currency string) string {
	text := sums(s.Ever, currency)
	var parts []string
	if word := periods[k.LimitReset]; word != "" && (k.Limit > 0 || k.ExternalLimit > 0) {
		parts = append(parts, s.Period[currency].String()+" "+word)
	}
	if k.ExternalLimit > 0 {
		parts = append(parts, s.External[currency].String()+" of it external")
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// sums are what a key spent: in the billing currency, and in those that were it before.
func sums(spent map[string]hearth.Nano, currency string) string {
	list := []string{spent[currency].String() + " " + currency}
	for _, c := range slices.Sorted(maps.Keys(spent)) {
		if c != currency && spent[c] > 0 {
			list = append(list, spent[c].String()+" "+c)
		}
	}
	return strings.Join(list, " + ")
}

const everything = "everything"

// policy says in words what a key may use.
func policy(k hearth.Key, currency string) string {
	var parts []string
	if k.LocalOnly {
		parts = append(parts, "local slots only")
	}
	if len(k.Models) > 0 {
		parts = append(parts, "models "+strings.Join(k.Models, ","))
	}
	if len(k.Providers) > 0 {
		parts = append(parts, "providers "+strings.Join(k.Providers, ","))
	}
	if len(parts) == 0 {
		parts = append(parts, everything)
	}
	switch {
	case k.EarlyHeaders > 0:
		parts = append(parts, "early headers after "+k.EarlyHeaders.String())
	case k.EarlyHeaders < 0:
		parts = append(parts, "no early headers")
	}
	if k.Limit > 0 {
		parts = append(parts, "up to "+k.Limit.String()+" "+currency+" "+per(k.LimitReset))
	}
	if k.ExternalLimit > 0 {
		parts = append(parts, "up to "+k.ExternalLimit.String()+" "+currency+" at external providers "+per(k.LimitReset))
	}
	if k.RequestsPerMinute > 0 {
		parts = append(parts, fmt.Sprintf("%d requests a minute", k.RequestsPerMinute))
	}
	if k.TokensPerMinute > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens a minute", k.TokensPerMinute))
	}
	if k.Class != hearth.Interactive {
		parts = append(parts, k.Class.String()+" requests")
	}
	if k.Kappa != 0 {
		parts = append(parts, "time worth "+k.Kappa.String())
	}
	if k.NoExplore {
		parts = append(parts, "no exploring")
	}
	if k.NoContent {
		parts = append(parts, "prompts and answers never kept")
	}
	if k.Currency != "" {
		parts = append(parts, "sees "+k.Currency)
	}
	if !k.ExpiresAt.IsZero() {
		parts = append(parts, "until "+k.ExpiresAt.Format(time.RFC3339))
	}
	if k.Owner != "" {
		parts = append(parts, "owner "+k.Owner)
	}
	return strings.Join(parts, "; ")
}

// per says in which time a limit may be spent.
func per(p hearth.Period) string {
	switch p {
	case hearth.Daily:
		return "a day"
	case hearth.Weekly:
		return "a week"
	case hearth.Monthly:
		return "a month"
	case hearth.Forever:
	}
	return "in all"
}

// oneKey is what the commands have that change a key.
type oneKey struct {
	configFlag
	Key string `arg:"" help:"Id, name or label of the key (see hearth keys list)."`
}

// change changes the key and prints what say makes of it, with the currency of amounts.
func (c *oneKey) change(ctx context.Context, std streams, do func(*app.Keys, *config.Config) (hearth.Key, error), say func(key hearth.Key, currency string) string) error {
	return c.with(ctx, func(k *app.Keys, cfg *config.Config) error {
		key, err := do(k, cfg)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(std.out, say(key, cfg.Currency))
		return err
	})
}

type keysSetCmd struct {
	oneKey
	policyFlags
}

// Run changes a key; a running gateway goes by it within a second. Only what a flag names is changed.
func (c *keysSetCmd) Run(ctx context.Context, std streams) error {
	if c.policyFlags == (policyFlags{}) {
		return errors.New("nothing is to be changed: say what with --models, --providers, --local-only, --early-headers, --limit, --limit-reset, --external-limit, --rpm, --tpm, --kappa, --explore, --currency, --expires, --content, --class or --owner")
	}
	return c.oneKey.change(ctx, std, func(k *app.Keys, cfg *config.Config) (hearth.Key, error) {
		change, err := c.policyFlags.change(nowIn(cfg))
		if err != nil {
			return hearth.Key{}, err
		}
		return k.Change(ctx, c.Key, change)
	}, func(key hearth.Key, currency string) string {
		return fmt.Sprintf("%s (%s) may use %s", key.ID, key.Name, policy(key, currency))
	})
}

type keysDisableCmd struct{ oneKey }

// Run disables a key; a running gateway refuses it within a second.
func (c *keysDisableCmd) Run(ctx context.Context, std streams) error {
	return c.change(ctx, std, func(k *app.Keys, _ *config.Config) (hearth.Key, error) { return k.Disable(ctx, c.Key) },
		func(key hearth.Key, _ string) string { return fmt.Sprintf("disabled %s (%s)", key.ID, key.Name) })
}

type keysEnableCmd struct{ oneKey }

// Run enables a key; a running gateway lets it in within a second.
func (c *keysEnableCmd) Run(ctx context.Context, std streams) error {
	return c.change(ctx, std, func(k *app.Keys, _ *config.Config) (hearth.Key, error) {
		return k.Change(ctx, c.Key, hearth.KeyChange{Disabled: new(false)})
	}, func(key hearth.Key, currency string) string {
		return fmt.Sprintf("enabled %s (%s), which may use %s", key.ID, key.Name, policy(key, currency))
	})
}

type keysDeleteCmd struct{ oneKey }

// Run deletes a key; a running gateway refuses it within a second.
func (c *keysDeleteCmd) Run(ctx context.Context, std streams) error {
	return c.change(ctx, std, func(k *app.Keys, _ *config.Config) (hearth.Key, error) { return k.Retire(ctx, c.Key) },
		func(key hearth.Key, _ string) string { return fmt.Sprintf("deleted %s (%s)", key.ID, key.Name) })
}

// with opens the keys of the configuration, which a running gateway may have open too.
func (f configFlag) with(ctx context.Context, do func(*app.Keys, *config.Config) error) error {
	cfg, err := f.loadQuietly()
	if err != nil {
		return err
	}
	k, err := app.OpenKeys(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(do(k, cfg), k.Close())
}
