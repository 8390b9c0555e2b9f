package dialect

import "strings"

// copying writes the messages of a request from front to back, with the media that were fetched in the place of their
// addresses.
type copying struct {
	c     *Chat
	media map[string]string
	next  int // of the addresses
}

// append writes the body from one offset to another. Calls go from front to back; what is between two of them is left out.
func (k *copying) append(dst []byte, from, to int) []byte {
	raw := k.c.raw
	for ; len(k.media) > 0 && k.next < len(k.c.media); k.next++ {
		a := k.c.media[k.next]
		if int(a.from) >= to {
			break
		}
		data, ok := k.media[string(unquote(raw[a.from:a.to]))]
		if !ok || int(a.from) < from {
			continue
		}
		if _, payload, found := strings.Cut(data, ","); found && a.bare {
			data = payload
		}
		dst = append(dst, raw[from:a.from]...)
		dst = appendQuoted(dst, data)
		from = int(a.to)
	}
	return append(dst, raw[from:to]...)
}

// appendMessages writes the messages: with the media that were fetched in the place of their addresses, and without the
// sealed parts that the target cannot use.
func (c *Chat) appendMessages(dst []byte, m *member, t *Target) []byte {
	k, from := copying{c: c, media: t.Media}, int(m.key)
	if t.Foreign != nil {
		n := 0
		for _, list := range c.thoughts {
			start, end := int(list.from), int(list.to)
			dst = k.append(dst, from, start)
			at, changed := len(dst), false
			for from = start; n < len(c.sealed) && c.sealed[n].from < end; n++ {
				if p := &c.sealed[n]; t.Foreign(n) {
					dst, changed = k.append(dst, from, p.from), true
					dst, from = c.cut(dst, p.to)
				}
			}
			dst, from = k.append(dst, from, end), end
			if changed && list.kind == listContent && isEmptyList(dst[at:]) {
				dst = append(dst[:at], `""`...) // no API takes a content without parts
			}
		}
	}
	return k.append(dst, from, int(m.valEnd))
}

// cut leaves out what ends at an offset, with the comma behind it or, if it is the last of its list, with that before it:
// the body goes on at the offset that is returned.
func (c *Chat) cut(dst []byte, to int) ([]byte, int) {
	s := scan{b: c.raw, i: to}
	if s.kind() == ',' {
		return dst, s.i + 1
	}
	n := len(dst)
	for n > 0 && isBlank(dst[n-1]) {
		n--
	}
	if n > 0 && dst[n-1] == ',' {
		dst = dst[:n-1]
	}
	return dst, to
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// isEmptyList says whether v, a list, has no elements.
func isEmptyList(v []byte) bool {
	s := scan{b: v, i: 1}
	return s.kind() == ']'
}
