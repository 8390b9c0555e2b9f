package market

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/routing"
)

// stranger is a market as somebody else may write it.
func stranger(t *testing.T, rows ...string) []Listing {
	t.Helper()
	list, err := ReadListings(strings.NewReader(strings.Join(rows, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// rowsOf are so many lines of a market, written by a format that is given the number of the line.
func rowsOf(n int, line func(i int) string) (rows []string) {
	for i := range n {
		rows = append(rows, fmt.Sprintf("p%d,%s", i, line(i)))
	}
	return rows
}

// TestStrangers: every policy plays markets and workloads that nobody has thought of, and all figures are numbers.
func TestStrangers(t *testing.T) {
	alone(t)
	t.Parallel()
	const usual = "seconds,in,out,session,shared\n"
	var busy strings.Builder
	for i := range 600 {
		fmt.Fprintf(&busy, "%g,%d,%d,s%d,%d\n", float64(i)*0.5, 200+i%700, i%300, i%40, i%200)
	}
	markets := map[string][]Listing{
		"all for nothing":          stranger(t, rowsOf(4, func(i int) string { return fmt.Sprintf("0,0,0,%g,60,99", 0.5+float64(i)) })...),
		"one for nothing":          stranger(t, rowsOf(4, func(i int) string { return fmt.Sprintf("%d,%d,%d,1,60,99", i, i, i) })...),
		"one provider":             stranger(t, "only,0.2,0.8,0.1,1,50,0.99"),
		"equal prices":             stranger(t, rowsOf(5, func(i int) string { return fmt.Sprintf("0.5,1.5,0.1,%g,%d,0.999", 0.3*float64(i+1), 30*(i+1)) })...),
		"equal in all":             stranger(t, rowsOf(5, func(int) string { return "0.5,1.5,0.5,1,50,1" })...),
		"no discount for a cache":  stranger(t, rowsOf(5, func(i int) string { return fmt.Sprintf("%g,2,%g,1,50,0.99", 0.4+0.1*float64(i), 0.4+0.1*float64(i)) })...),
		"a cache dearer than none": stranger(t, rowsOf(3, func(i int) string { return fmt.Sprintf("0.5,2,%d,1,50,0.99", i+1) })...),
		"huge and tiny prices": stranger(t, rowsOf(6, func(i int) string {
			p := math.Pow(10, float64(3*i-9))
			return fmt.Sprintf("%g,%g,%g,1,50,0.99", p, p, p/10)
		})...),
		"waits of all sizes": stranger(t, rowsOf(7, func(i int) string { return fmt.Sprintf("0.5,1.5,0.1,%g,50,0.99", 0.1*math.Pow(100, float64(i)/6)) })...),
		"thirty-three":       stranger(t, rowsOf(33, func(i int) string { return fmt.Sprintf("%g,2,0.1,%g,50,0.99", 0.3+0.02*float64(i), 0.2+0.1*float64(i)) })...),
		"hardly ever up":     stranger(t, rowsOf(3, func(i int) string { return "0.5,1.5,0.1,1,50,0.01" })...),
	}
	loads := map[string]string{
		"one request": "0,100,50,,0\n", "all at once": usual + strings.Repeat("7,100,50,,0\n", 200), "backwards": usual + "20,900,10,a,500\n10,500,10,a,0\n0,100,10,,0\n",
		"BOM and CRLF": "\ufeff" + strings.ReplaceAll(usual+"0,100,50,\"a, b\",0\n5,200,50,\"a, b\",100\n", "\n", "\r\n"), "busy": busy.String(),
	}
	for name, list := range markets {
		for load, text := range loads {
			t.Run(name+", "+load, func(t *testing.T) {
				t.Parallel()
				arrivals, err := ReadArrivals(strings.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				s := Own()
				s.Lists, s.Arrivals, s.Seconds = list, arrivals, max(arrivals[len(arrivals)-1].At, 1)
				p := &Plan{Scenarios: []Scenario{s}, Policies: append(Policies(), Thrifty), Seeds: []uint64{1}, Versus: Usual()}
				c, err := p.Play(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if bad := unlike(reflect.ValueOf(*c)); bad != "" {
					t.Errorf("%s is no number", bad)
				}
				if b, err := json.Marshal(c, json.Deterministic(true)); err != nil || json.Unmarshal(b, &Comparison{}) != nil {
					t.Error(err)
				}
				if n := c.Scenarios[0].Policies[RoutingCost].Requests; n > len(arrivals) || load == "all at once" && n != len(arrivals) && n != 0 {
					t.Errorf("%d requests of %d", n, len(arrivals))
				}
			})
		}
	}
}

// unlike is where in v there is a number that is none, or not a finite one.
func unlike(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return "a figure"
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if bad := unlike(v.Field(i)); bad != "" {
				return v.Type().Field(i).Name + ": " + bad
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if bad := unlike(v.Index(i)); bad != "" {
				return bad
			}
		}
	case reflect.Map:
		for k, e := range v.Seq2() {
			if bad := unlike(e); bad != "" {
				return k.String() + ": " + bad
			}
		}
	}
	return ""
}

// TestStrangers_Share: where all cost nothing or all are alike, nobody gets everything.
func TestStrangers_Share(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]string{"for nothing": "0,0,0,1,50,1", "alike": "0.5,1.5,0.1,1,50,1"} {
		s := Own()
		s.Lists, s.Load, s.Seconds = stranger(t, rowsOf(4, func(int) string { return row })...), Chats(1), 3000
		f, err := Run(t.Context(), &s, RoutingCost, 1, routing.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, share := range f.Shares {
			if share > 0.8 {
				t.Errorf("%s: endpoint %d gets %.2f", name, i, share)
			}
		}
		if name == "for nothing" && f.Cost != 0 {
			t.Errorf("what costs nothing comes to %g", f.Cost)
		}
	}
}

// TestStrangers_Mistakes: what is wrong with a file is said with the line, the column and the remedy.
func TestStrangers_Mistakes(t *testing.T) {
	t.Parallel()
	listings := func(s string) error { _, err := ReadListings(strings.NewReader(s)); return err }
	arrivals := func(s string) error { _, err := ReadArrivals(strings.NewReader(s)); return err }
	for _, c := range []struct {
		name string
		read func(string) error
		text string
		want string
	}{
		{"a column that is not known instead of one that is", listings, "name,in,out,cahce,ttft,tps,uptime,region\na,1,2,0.5,1,50,99,eu\n", `line 1 names no column cache price, and "cahce" is none that is known; name it so, or leave it out`},
		{"a column that is missing", listings, "name,in,out,cache,ttft,uptime\na,1,2,0.5,1,99\n", "line 1 names no column tok/s p50; wanted are name, input price ($ per 1,000,000 tokens), "},
		{"a column that is there twice", listings, "name,provider,in,out,cache,ttft,tps,uptime\na,b,1,2,0.5,1,50,99\n", "line 1: columns 1 and 2 are both the name; leave one out"},
		{"milliseconds by the heading", listings, "name,in,out,ttft_ms,tps,uptime\na,1,2,90,50,99\n", `line 1, column 4: "ttft_ms" is in milliseconds; write seconds`},
		{"a wrong column in another order", listings, "uptime,tok/s,TTFT (s),name,input price,output price\n99%,50,1,a,x,2\n", `line 2, column 5: input price "x" is no number; write $ per 1,000,000 tokens`},
		{"more columns than the heading", listings, "uptime,tps,ttft,name,in,out\n99%,50,1,a,1,2,3\n", "line 2 has 7 columns; 6 are wanted: name,"},
		{"more columns than there are", listings, "a,1,2,0.5,1,50,99,eu\n", "line 1 has 8 columns; 7 are wanted: name, input price"},
		{"a column too many of a workload", arrivals, "0,1,1,,0,x\n", "line 1 has 6 columns; 5 are wanted: seconds, input tokens"},
		{"an empty price", listings, "a,0.2,,0.1,1,50,99\n", "line 1, column 3: output price is empty; write $ per 1,000,000 tokens"},
		{"an uptime above all", listings, "a,0.2,0.8,0.1,1,50,101%\n", "line 1, column 7: uptime 101% is not from 0.01 to 1; write a part such as 0.995, or per cent such as 99.5 or 99.5%"},
		{"another encoding", listings, "\xff\xfea\x00,\x00", "it is UTF-16; save it as CSV in UTF-8"},
		{"a quote in a cell", listings, "a \"b\",1,2,0.5,1,50,99\n", "it is no CSV: parse error on line 1, column 3: bare \" in non-quoted-field; put what holds a comma or a quote between quotes"},
		{"a sign of a currency", listings, "a,$0.2,0.8,0.1,1,50,99\n", `line 1, column 2: input price "$0.2" is no number; write $ per 1,000,000 tokens`},
		{"a comma for a point", listings, "a,\"0,2\",0.8,0.1,1,50,99\n", `line 1, column 2: input price "0,2" is no number`},
		{"a quoted field that goes on", listings, "\"a\nb\",0.2,0.8,0.1,1,50,99\nc,x,0.8,0.1,1,50,99\n", `line 3, column 2: input price "x" is no number`},
		{"semicolons", arrivals, "0;100;50;;0\n", "line 1 has 1 columns; 5 are wanted, with commas between them: seconds, "},
		{"times of a calendar", arrivals, "seconds,in,out,session,shared\n2026-11-30T09:00:00Z,1,1,,0\n", `line 2, column 1: seconds "2026-11-30T09:00:00Z" is no number; write seconds, from any moment on`},
		{"a mistake after CRLF", arrivals, "\ufeffseconds,in,out,session,shared\r\n0,100,50,,0\r\n1,0,50,,0\r\n", "line 3, column 2: input tokens 0 is not from 1 to"},
	} {
		if err := c.read(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
