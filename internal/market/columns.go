package market

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// column is one of a CSV file.
type column struct {
	what, unit, remedy string
	// names are what a heading may call it besides what, lower case, letters and figures alone.
	names       []string
	optional    bool // a file with a heading may be without it, and a cell may be empty
	least, most float64
}

// filed is a row of a file, in the order of its columns wherever they stand in the file.
type filed struct {
	line    int
	columns []column
	at      []int // where each stands in the file, from 0 on, -1 = nowhere
	fields  []string
	wide    int // columns of the file
}

// text is what is in a column, "" = nothing.
func (c *filed) text(i int) string {
	if at := c.at[i]; at >= 0 && at < len(c.fields) {
		return strings.TrimSpace(c.fields[at])
	}
	return ""
}

// wrong is an error about a column.
func (c *filed) wrong(i int, form string, a ...any) error {
	return fmt.Errorf("line %d, column %d: %s", c.line, c.at[i]+1, fmt.Sprintf(form, a...))
}

// number reads a column. Nothing in an optional one is without.
func (c *filed) number(i int, without float64) (float64, error) {
	text := c.text(i)
	if text == "" && c.columns[i].optional {
		return without, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	return c.within(i, v, err)
}

// part reads a column with a part of one: 0.97, 97 or 97%.
func (c *filed) part(i int) (float64, error) {
	text, percent := strings.CutSuffix(c.text(i), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent = percent || v > 1; percent {
		v /= 100
	}
	return c.within(i, v, err)
}

// within checks a number that was read with an error.
func (c *filed) within(i int, v float64, err error) (float64, error) {
	col, text := &c.columns[i], cut(c.text(i))
	switch {
	case text == "":
		return 0, c.wrong(i, "%s is empty; write %s", col.what, col.remedy)
	case err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(v):
		return 0, c.wrong(i, "%s %q is no number; write %s", col.what, text, col.remedy)
	case v < col.least || v > col.most:
		return 0, c.wrong(i, "%s %s is not from %g to %g; write %s", col.what, text, col.least, col.most, col.remedy)
	}
	return v, nil
}

// cut shortens a text for a message.
func cut(text string) string {
	if len(text) > 40 {
		return strings.ToValidUTF8(text[:40], "") + "…"
	}
	return text
}

// table reads the rows of a CSV file with these columns. A first row without any number is a heading, which may name
// the columns in another order and others between them.
func table(from io.Reader, columns []column, row func(*filed) error) error {
	in, err := unmarked(from)
	if err != nil {
		return err
	}
	r := csv.NewReader(in)
	r.FieldsPerRecord, r.ReuseRecord, r.TrimLeadingSpace, r.Comment = -1, true, true, '#'
	c := filed{columns: columns, at: make([]int, len(columns)), wide: len(columns)}
	for i := range c.at {
		c.at[i] = i
	}
	for first := true; ; first = false {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no CSV: %w; put what holds a comma or a quote between quotes, and write a quote in it twice", err)
		}
		c.line, _ = r.FieldPos(0)
		c.fields = fields
		switch {
		case !slices.ContainsFunc(fields, func(f string) bool { return strings.TrimSpace(f) != "" }):
		case first && heading(fields):
			err = c.named()
		case c.tooWide():
			err = c.width()
		default:
			err = row(&c)
		}
		if err != nil {
			return err
		}
	}
}

// tooWide says whether a row has not as many columns as there are. Empty ones at the end do not matter.
func (c *filed) tooWide() bool {
	for i, f := range c.fields {
		if i >= c.wide && strings.TrimSpace(f) != "" {
			return true
		}
	}
	return len(c.fields) < c.wide && slices.ContainsFunc(c.at, func(at int) bool { return at >= len(c.fields) && !c.columns[slices.Index(c.at, at)].optional })
}

// width is an error about a row that has not as many columns as there are.
func (c *filed) width() error {
	hint := ""
	if len(c.fields) == 1 && strings.ContainsAny(c.fields[0], ";\t") {
		hint = ", with commas between them"
	}
	return fmt.Errorf("line %d has %d columns; %d are wanted%s: %s", c.line, len(c.fields), c.wide, hint, form(c.columns))
}

// form is what columns there are.
func form(columns []column) string {
	var list []string
	for i := range columns {
		if list = append(list, columns[i].what); columns[i].unit != "" {
			list[i] += " (" + columns[i].unit + ")"
		}
	}
	return strings.Join(list, ", ")
}

// heading says whether a row names columns: there is no number in it.
func heading(fields []string) bool {
	for _, f := range fields {
		if _, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(f), "%")), 64); err == nil {
			return false
		}
	}
	return strings.ContainsFunc(strings.Join(fields, ""), unicode.IsLetter)
}

// named finds the columns by their names. If none has another place than without a heading, they stand in their order.
func (c *filed) named() error {
	at := make([]int, len(c.columns))
	for i := range at {
		at[i] = -1
	}
	unknown := ""
	for k, f := range c.fields {
		i := slices.IndexFunc(c.columns, func(col column) bool { return col.called(f) })
		switch {
		case i < 0:
			if unknown == "" {
				unknown = cut(strings.TrimSpace(f))
			}
			continue
		case at[i] >= 0:
			return fmt.Errorf("line %d: columns %d and %d are both the %s; leave one out", c.line, at[i]+1, k+1, c.columns[i].what)
		case milliseconds(f):
			return fmt.Errorf("line %d, column %d: %q is in milliseconds; write seconds", c.line, k+1, cut(f))
		}
		at[i] = k
	}
	if inOrder(at) && len(c.fields) == len(c.columns) {
		return nil
	}
	for i, k := range at {
		switch {
		case k >= 0:
		case !c.columns[i].optional:
			return fmt.Errorf("line %d names no column %s; wanted are %s", c.line, c.columns[i].what, form(c.columns))
		case unknown != "":
			return fmt.Errorf("line %d names no column %s, and %q is none that is known; name it so, or leave it out", c.line, c.columns[i].what, unknown)
		}
	}
	c.at, c.wide = at, len(c.fields)
	return nil
}

// inOrder says whether the columns that were found stand where they stand without a heading.
func inOrder(at []int) bool {
	for i, k := range at {
		if k >= 0 && k != i {
			return false
		}
	}
	return true
}

// called says whether a heading means the column.
func (c *column) called(heading string) bool {
	heading = strings.ToLower(heading)
	for _, end := range []string{"", "(", "[", "$", " per ", "_per_", " ms", "_ms", " milli", "_milli"} {
		text := heading
		if end != "" {
			text, _, _ = strings.Cut(heading, end)
		}
		if text = bare(text); text != "" && (text == bare(c.what) || slices.Contains(c.names, text)) {
			return true
		}
	}
	return false
}

// bare is the letters and figures of a text.
func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

// milliseconds says whether a heading is of a column in them.
func milliseconds(heading string) bool {
	words := strings.FieldsFunc(strings.ToLower(heading), func(r rune) bool { return !unicode.IsLetter(r) })
	return slices.ContainsFunc(words, func(w string) bool { return w == "ms" || w == "msec" || strings.HasPrefix(w, "milli") })
}

// unmarked is a file without the mark of its encoding at the beginning, and without spaces behind a quoted cell.
func unmarked(from io.Reader) (io.Reader, error) {
	in := bufio.NewReader(from)
	head, _ := in.Peek(3) // an error comes again
	switch {
	case bytes.HasPrefix(head, []byte("\ufeff")):
		_, _ = in.Discard(len("\ufeff"))
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return nil, errors.New("it is UTF-16; save it as CSV in UTF-8")
	}
	return &unspaced{in: in, start: true}, nil
}

// unspaced leaves out spaces between a quoted cell and what ends it.
type unspaced struct {
	in     *bufio.Reader
	start  bool // of a cell
	quoted bool // inside of quotes
	closed bool // behind them
	spaces int  // that are held back
}

// Read reads what is left.
func (u *unspaced) Read(into []byte) (n int, err error) {
	for n < len(into) {
		if u.spaces > 0 && !u.closed { // something came behind them after all
			into[n] = ' '
			n, u.spaces = n+1, u.spaces-1
			continue
		}
		b, err := u.in.ReadByte()
		if err != nil {
			return n, err
		}
		if u.closed && (b == ' ' || b == '\t') {
			u.spaces++
			continue
		}
		if u.closed && u.spaces > 0 {
			ends := b == ',' || b == '\n' || b == '\r'
			if u.closed = false; !ends {
				_ = u.in.UnreadByte() // it was just read
				continue
			}
			u.spaces = 0
		}
		u.step(b)
		into[n] = b
		n++
	}
	return n, nil
}

// step follows where a byte leads.
func (u *unspaced) step(b byte) {
	switch {
	case u.quoted:
		u.quoted, u.closed = b != '"', b == '"'
	case b == '"' && (u.start || u.closed): // of two quotes, the second one goes on
		u.quoted, u.start, u.closed = true, false, false
	case b == ',' || b == '\n':
		u.start, u.closed = true, false
	case b != ' ' && b != '\t' && b != '\r':
		u.start, u.closed = false, false
	}
}
