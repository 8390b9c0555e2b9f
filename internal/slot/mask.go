package slot

import "strings"

// keyMin is the shortest key that is looked for in what an engine writes: a shorter one may be any word.
const keyMin = 8

// masked is an engine in whose log its key cannot be read: several engines write down the arguments they were given.
type masked struct{ Engine }

func (m masked) LogTail() []string {
	lines, key := m.Engine.LogTail(), m.APIKey().Reveal()
	if len(key) < keyMin {
		return lines
	}
	for i, line := range lines {
		if strings.Contains(line, key) {
			lines = append([]string(nil), lines...) // they may be the engine's own
			for ; i < len(lines); i++ {
				lines[i] = strings.ReplaceAll(lines[i], key, "[redacted]")
			}
			break
		}
	}
	return lines
}
