package server

import (
	"slices"
	"strings"

	"myip.co.kr/hearth"
)

// hide are the secrets of a slot that its engine may write down.
type hide []string

// hideMin is the shortest secret that is looked for: a shorter one may be any word.
const hideMin = 8

// secretNames are in the names of variables and headers whose values are secret.
var secretNames = []string{"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE"}

// concealed are the secrets in a slot's configuration.
func concealed(s *hearth.Slot) hide {
	var h hide
	add := func(value hearth.Secret) {
		for _, v := range []string{value.Reveal(), strings.TrimPrefix(value.Reveal(), "Bearer ")} {
			if len(v) >= hideMin && !slices.Contains(h, v) {
				h = append(h, v)
			}
		}
	}
	named := func(m map[string]hearth.Secret) {
		for name, value := range m {
			if slices.ContainsFunc(secretNames, func(s string) bool { return strings.Contains(strings.ToUpper(name), s) }) {
				add(value)
			}
		}
	}
	add(s.APIKey)
	named(s.Env)
	secretArguments(s.Command, add)
	for _, a := range []*hearth.Action{s.Actions.Start, s.Actions.Stop, s.Actions.Status} {
		if a != nil {
			named(a.Headers)
			secretArguments(a.Command, add)
		}
	}
	slices.SortFunc(h, func(a, b string) int { return len(b) - len(a) }) // one may be in another
	return h
}

// secretFlags are the last words of options whose values are secret: several engines write down what they were given.
var secretFlags = []string{"key", "token", "secret", "password", "passphrase", "credential", "credentials", "auth"}

// secretArguments adds the values of a command's secret options.
func secretArguments(command []string, add func(hearth.Secret)) {
	for i, a := range command {
		flag, value, joined := strings.Cut(a, "=")
		if !strings.HasPrefix(flag, "-") {
			continue
		}
		if !joined && i+1 < len(command) {
			value = command[i+1]
		}
		flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-"))
		if slices.Contains(secretFlags, flag[strings.LastIndexByte(flag, '-')+1:]) {
			add(hearth.Secret(value))
		}
	}
}

func (h hide) text(s string) string {
	for _, secret := range h {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return s
}

// lines are the last of these lines, without the secrets.
func (h hide) lines(lines []string) []string {
	const most = 200
	out := slices.Clone(lines[max(0, len(lines)-most):])
	for i := range out {
		out[i] = h.text(out[i])
	}
	return out
}
