package market

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const listings = "name,in,out,cache,ttft,tps,uptime\na, 0.2, 0.8, 0.05, 0.8, 60, 99.5\nb,0.3,0.9,0.3,0.4,120,100\n"

func TestReadListings(t *testing.T) {
	t.Parallel()
	want := []Listing{{"a", 0.2, 0.8, 0.05, 0.8, 60, 0.995}, {"b", 0.3, 0.9, 0.3, 0.4, 120, 1}}
	for name, text := range map[string]string{
		"with a heading": listings, "without one": listings[strings.Index(listings, "\n")+1:], "of Windows": "\ufeff" + strings.ReplaceAll(listings, "\n", "\r\n"),
		"with parts":                    strings.NewReplacer("99.5", "0.995", "100", "1").Replace(listings),
		"with the sign of per cent":     strings.NewReplacer("99.5", "99.5 %", "100", "100%").Replace(listings),
		"with uptimes of all kinds":     strings.NewReplacer("99.5", "0.995", "100", "100").Replace(listings),
		"without a price of the cache":  strings.Replace(listings, "0.9,0.3,", "0.9, ,", 1),
		"with quotes and spaces":        "\"name\" , in,out,cache,ttft,tps,uptime\n \"a\" , 0.2 ,0.8, \"0.05\"\t,0.8 , 60, 99.5 \r\n\"b\",0.3,0.9,0.3,0.4,120,100",
		"with a mark before a quote":    "\ufeff\"a\",0.2,0.8,0.05,0.8,60,99.5\nb,0.3,0.9,0.3,0.4,120,100\n",
		"with empty columns and rows":   "a,0.2,0.8,0.05,0.8,60,99.5,,\n,,,,,,,,\n\nb,0.3,0.9,0.3,0.4,120,100,,\n",
		"with a heading of other words": "이름,입력,출력,캐시,첫 토큰,속도,가동률\n" + listings[strings.Index(listings, "\n")+1:],
		"in another order":              "Uptime %,Tokens per second,region,TTFT p50 (s),Input price ($/M),output_price,Cached input price [$],Endpoint\n99.5,60,eu,0.8,0.2,0.8,0.05,a\n100,120,us,0.4,0.3,0.9,,b\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadListings(strings.NewReader(text))
			if d := cmp.Diff(want, got); d != "" || err != nil {
				t.Error(err, d)
			}
		})
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "it has no endpoint; write one a line: name, input price"},
		{"a heading alone", listings[:strings.Index(listings, "\n")], "it has no endpoint"},
		{"a column too few", "a,1,2,3,4,5\n", "line 1 has 6 columns; 7 are wanted: name,"},
		{"a price that is no number", strings.Replace(listings, "0.9", "free", 1), `line 3, column 3: output price "free" is no number; write $ per 1,000,000 tokens`},
		{"a price below nothing", strings.Replace(listings, "0.9", "-1", 1), "line 3, column 3: output price -1 is not from 0 to 1e+06"},
		{"milliseconds", strings.Replace(listings, "0.4", "400", 1), "line 3, column 5: TTFT p50 400 is not from 0.001 to 120; write seconds, not milliseconds"},
		{"not a number", strings.Replace(listings, "120", "NaN", 1), `line 3, column 6: tok/s p50 "NaN" is no number`},
		{"infinity", strings.Replace(listings, "120", "Inf", 1), "line 3, column 6: tok/s p50 Inf is not from"},
		{"no speed", strings.Replace(listings, "120", "0", 1), "line 3, column 6: tok/s p50 0 is not from 0.1"},
		{"never up", strings.Replace(listings, "100", "0", 1), "line 3, column 7: uptime 0 is not from 0.01 to 1;"},
		{"the same name twice", strings.Replace(listings, "b,", "a,", 1), `line 3, column 1: "a" is in line 2 already`},
		{"no name", strings.Replace(listings, "b,", ",", 1), "line 3, column 1: the name is empty"},
		{"a quote that does not end", `a,"1`, "it is no CSV: "},
		{"too many", strings.Repeat("x", 1) + many(), "line 1001: a market has at most 1000 endpoints"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			t.Parallel()
			if list, err := ReadListings(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

// many are more lines than a market may have.
func many() string {
	var b strings.Builder
	for i := range maxListings + 1 {
		b.WriteString("p" + strings.Repeat("i", i/26) + string(rune('a'+i%26)) + ",1,1,1,1,1,1\n")
	}
	return b.String()
}

func TestReadArrivals(t *testing.T) {
	t.Parallel()
	got, err := ReadArrivals(strings.NewReader("seconds,in,out,session,shared\n105.5,900,40,s1,700\n100,500,30,s1,200\n101,300,20,,200\n102,80,0,0,0\n106,1000,10,s1,650\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Arrival{
		{At: 0, In: 500, Out: 30, Session: 1, prefix: []block{{200, 200}, {ownBlocks, 300}}},
		{At: 1, In: 300, Out: 20, prefix: []block{{200, 200}, {ownBlocks + 1, 100}}},
		{At: 2, In: 80, Out: 1, prefix: []block{{ownBlocks + 2, 80}}},
		{At: 5.5, In: 900, Out: 40, Session: 1, prefix: []block{{200, 200}, {ownBlocks, 300}, {ownBlocks + 3, 400}}}, // the answer was no prompt yet
		{At: 6, In: 1000, Out: 10, Session: 1, prefix: []block{{200, 200}, {ownBlocks, 300}, {ownBlocks + 3, 150}, {ownBlocks + 4, 350}}},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(Arrival{}, block{})); d != "" {
		t.Error(d)
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "it has no request; write one a line: seconds, input tokens"},
		{"a column too many", "0,1,1,,0,0\n", "line 1 has 6 columns; 5 are wanted: seconds,"},
		{"a time that is none", "0,1,1,,0\nsoon,1,1,,0\n", `line 2, column 1: seconds "soon" is no number; write seconds, from any moment on`},
		{"no prompt", "0,0,1,,0\n", "line 1, column 2: input tokens 0 is not from 1"},
		{"a negative answer", "0,1,-1,,0\n", "line 1, column 3: output tokens -1 is not from 0"},
		{"a prefix that is longer than its prompt", "0,10,1,,11\n", "line 1, column 5: 11 shared-prefix tokens of 10 input tokens"},
		{"milliseconds", "0,1,1,,0\n3000000,1,1,,0\n", "the last request comes 3000000 seconds after the first; at most 31 days"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			t.Parallel()
			if list, err := ReadArrivals(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

// TestReadListings_Quotes: what is between quotes stays as it is.
func TestReadListings_Quotes(t *testing.T) {
	t.Parallel()
	list, err := ReadListings(strings.NewReader("name,in,out,ttft,tps,uptime\n\" a , \"\"b\"\"  c\" ,0.2,0.8,0.8,60,99%\nd  \t e ,1,2,1,50,1\n"))
	want := []Listing{{`a , "b"  c`, 0.2, 0.8, 0.2, 0.8, 60, 0.99}, {"d  \t e", 1, 2, 1, 1, 50, 1}}
	if d := cmp.Diff(want, list); d != "" || err != nil {
		t.Error(err, d)
	}
	if list, err := ReadListings(strings.NewReader(`"a" "b",1,2,0.5,1,50,99`)); err == nil {
		t.Errorf("%+v", list)
	}
}

// TestReadArrivals_Heading: columns in another order, and without those that need not be there.
func TestReadArrivals_Heading(t *testing.T) {
	t.Parallel()
	want, err := ReadArrivals(strings.NewReader("0,500,30,,\n1,300,20,,0\n2,300,20\n"))
	if err != nil || len(want) != 3 {
		t.Fatal(want, err)
	}
	for _, text := range []string{
		"GeneratedTokens,TIMESTAMP,ContextTokens\n30,7,500\n20,8,300\n20,9,300\n",
		"session id,output tokens,input tokens,user,shared prefix,seconds\n,30,500,x,,7\n0,20,300,y,0,8\n,20,300,,,9\n",
	} {
		got, err := ReadArrivals(strings.NewReader(text))
		if d := cmp.Diff(want, got, cmp.AllowUnexported(Arrival{}, block{})); d != "" || err != nil {
			t.Error(err, d)
		}
	}
}

func FuzzReadListings(f *testing.F) {
	f.Add(listings)
	f.Add("uptime,tps,ttft,name,in,out\n99%,50,1,\"a\" ,1,2\n")
	f.Add("a,1e-7,2,0,1,5,1\n\n# note\n\"b\",0,0,0,1,5,0.9\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ReadListings(strings.NewReader(text))
		if err != nil {
			return
		}
		if len(list) == 0 || len(list) > maxListings {
			t.Fatalf("%d endpoints", len(list))
		}
		for _, l := range list {
			if !(l.In >= 0 && l.Out >= 0 && l.Cache >= 0 && l.TTFT > 0 && l.TPS > 0 && l.Uptime > 0 && l.Uptime <= 1) {
				t.Fatalf("%+v", l)
			}
		}
		if _, err := catalog(list); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzReadArrivals(f *testing.F) {
	f.Add("seconds,in,out,session,shared\n0,10,20,a,5\n1,30,5,a,10\n0.5,7,7,,7\n")
	f.Add("-3,1,0,x,1\n")
	f.Add("out,\"time\" ,in\n5,0,3\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ReadArrivals(strings.NewReader(text))
		if err != nil {
			return
		}
		before := 0.0
		for _, a := range list {
			sum := 0
			for _, b := range a.prefix {
				if b.tokens <= 0 {
					t.Fatalf("%+v", a)
				}
				sum += b.tokens
			}
			if sum != a.In || a.Out < 1 || a.At < before || a.At > maxArrivalDay {
				t.Fatalf("%+v", a)
			}
			before = a.At
		}
	})
}
