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

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

type keysCmd struct {
	Create  keysCreateCmd  `cmd:"" help:"Create a key. It is shown this once."`
	List    keysListCmd    `cmd:"" help:"List the keys, what each spent and may use."`
	Set     keysSetCmd     `cmd:"" help:"Change what a key may use."`
	Disable keysDisableCmd `cmd:"" help:"Disable a key: requests with it get 401."`
}

// policyFlags say what a key may use. A flag that is not given is nil.
type policyFlags struct {
	Models       *string `placeholder:"A,B" help:"Models the key may use, by id or alias; \"\" is all."`
	Providers    *string `placeholder:"A,B" help:"Providers the key may use, by slug or slug/variant; local-gpu is your own slots; \"\" is all."`
	LocalOnly    *bool   `negatable:"" help:"Requests with the key never leave the house."`
	EarlyHeaders *string `placeholder:"20s" help:"Begin the answer to a stream after so much waiting (see early_headers in the configuration); 0s is never, \"\" as the configuration says."`
	Limit        *string `placeholder:"AMOUNT" help:"What the key may spend in all, in the billing currency; 0 is no limit."`
}

// change reads the flags.
func (f policyFlags) change() (c hearth.KeyChange, err error) {
	c = hearth.KeyChange{Models: names(f.Models), Providers: names(f.Providers), LocalOnly: f.LocalOnly}
	if c.EarlyHeaders, err = wait(f.EarlyHeaders); err != nil {
		return c, err
	}
	if f.Limit == nil {
		return c, nil
	}
	limit, err := amount(*f.Limit)
	c.Limit = &limit
	return c, err
}

// wait reads the early headers of a key: 0s is never, as in the configuration, and an empty text the configuration's own.
func wait(text *string) (*time.Duration, error) {
	if text == nil {
		return nil, nil
	}
	if strings.TrimSpace(*text) == "" {
		return new(time.Duration), nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(*text))
	if err != nil || d < 0 {
		return nil, errors.New(`--early-headers must be a duration with its unit, such as 20s; 0s is never, "" as the configuration says`)
	}
	if d == 0 {
		d = hearth.NoEarlyHeaders
	}
	return &d, nil
}

// names reads a list with commas; an empty text is an empty list.
func names(text *string) *[]string {
	if text == nil {
		return nil
	}
	list := []string{}
	if strings.TrimSpace(*text) != "" {
		for name := range strings.SplitSeq(*text, ",") {
			list = append(list, strings.TrimSpace(name))
		}
	}
	return &list
}

// amount reads an amount of money exactly; an empty one is 0.
func amount(text string) (n hearth.Nano, err error) {
	const remedy = "--limit must be an amount in the billing currency, such as 5 or 2.50"
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, nil
	}
	if len(text) > 40 || strings.Trim(text, "0123456789.") != "" {
		return 0, errors.New(remedy + ": digits and a point only")
	}
	d, err := decimal.NewFromString(text)
	if err != nil {
		return 0, errors.New(remedy)
	}
	if n, err = hearth.NanoFromDecimal(d); err != nil {
		return 0, errors.New(remedy + ": this is more than can be counted")
	}
	if !n.Decimal().Equal(d) {
		return 0, errors.New(remedy + ": it has more than nine decimals")
	}
	return n, nil
}

type keysCreateCmd struct {
	configFlag
	policyFlags
	Name  string `arg:"" help:"What to call the key, e.g. the program that will use it."`
	Admin bool   `help:"The key may also use the admin routes."`
}

// Run creates a key and prints it alone on standard output, so that scripts can take it.
func (c *keysCreateCmd) Run(ctx context.Context, std streams) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	return c.with(ctx, func(k *app.Keys, cfg *config.Config) error {
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
			if key.Disabled {
				state = "disabled"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.Label, key.Name, role, state,
				key.CreatedAt.Local().Format(time.DateTime), sums(spent[key.ID], cfg.Currency), policy(key, cfg.Currency))
		}
		return tw.Flush()
	})
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
		parts = append(parts, "up to "+k.Limit.String()+" "+currency+" in all")
	}
	return strings.Join(parts, "; ")
}

type keysSetCmd struct {
	configFlag
	policyFlags
	Key string `arg:"" help:"Id, name or label of the key (see hearth keys list)."`
}

// Run changes a key; a running gateway goes by it within a second. Only what a flag names is changed.
func (c *keysSetCmd) Run(ctx context.Context, std streams) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	if change == (hearth.KeyChange{}) {
		return errors.New("nothing is to be changed: say what with --models, --providers, --local-only, --early-headers or --limit")
	}
	return c.with(ctx, func(k *app.Keys, cfg *config.Config) error {
		key, err := k.Change(ctx, c.Key, change)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.out, "%s (%s) may use %s\n", key.ID, key.Name, policy(key, cfg.Currency))
		return err
	})
}

type keysDisableCmd struct {
	configFlag
	Key string `arg:"" help:"Id, name or label of the key (see hearth keys list)."`
}

// Run disables a key; a running gateway refuses it within a second.
func (c *keysDisableCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(k *app.Keys, _ *config.Config) error {
		key, err := k.Disable(ctx, c.Key)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.out, "disabled %s (%s)\n", key.ID, key.Name)
		return err
	})
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
