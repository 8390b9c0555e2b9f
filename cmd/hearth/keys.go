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
	Limit        *string `placeholder:"AMOUNT" help:"What the key may spend, in the billing currency; 0 is no limit."`
	LimitReset   *string `placeholder:"PERIOD" help:"When its limits begin anew, in the configured time zone: daily, weekly (on Monday), monthly or never."`
	External     *string `name:"external-limit" placeholder:"AMOUNT" help:"What the key may spend at external providers, in the same period; after that own slots go on. 0 is no limit."`
}

// change reads the flags.
func (f policyFlags) change() (c hearth.KeyChange, err error) {
	c = hearth.KeyChange{Models: names(f.Models), Providers: names(f.Providers), LocalOnly: f.LocalOnly}
	if c.EarlyHeaders, err = wait(f.EarlyHeaders); err != nil {
		return c, err
	}
	if c.Limit, err = limit("--limit", f.Limit); err != nil {
		return c, err
	}
	if c.ExternalLimit, err = limit("--external-limit", f.External); err != nil {
		return c, err
	}
	c.LimitReset, err = period(f.LimitReset)
	return c, err
}

// period reads the name of a period; an empty text is never.
func period(text *string) (*hearth.Period, error) {
	if text == nil {
		return nil, nil
	}
	p := hearth.Period(strings.TrimSpace(*text))
	switch p {
	case hearth.Daily, hearth.Weekly, hearth.Monthly, hearth.Forever:
	case "never":
		p = hearth.Forever
	default:
		return nil, errors.New("--limit-reset must be daily, weekly, monthly or never")
	}
	return &p, nil
}

// limit reads the amount of a flag; nil if it is not given.
func limit(flag string, text *string) (*hearth.Nano, error) {
	if text == nil {
		return nil, nil
	}
	n, err := amount(*text)
	if err != nil {
		return nil, fmt.Errorf("%s %w", flag, err)
	}
	return &n, nil
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
	const remedy = "must be an amount in the billing currency, such as 5 or 2.50"
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
		return errors.New("nothing is to be changed: say what with --models, --providers, --local-only, --early-headers, --limit, --limit-reset or --external-limit")
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
