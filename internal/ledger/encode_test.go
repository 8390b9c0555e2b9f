package ledger

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
)

// library is what the JSON library makes of g: the hand-made encoder must write the same bytes.
func library(t interface{ Fatalf(string, ...any) }, g *hearth.Generation) string {
	b, err := json.Marshal(g, jsontext.AllowInvalidUTF8(true), formatTags)
	if err != nil {
		t.Fatalf("library: %v", err)
	}
	return string(b)
}

// draw fills v with anything its type can hold, so that a field added later is drawn too.
func draw(t *rapid.T, v reflect.Value, name string) {
	switch v.Interface().(type) {
	case time.Time:
		zone := time.FixedZone("", rapid.IntRange(-14*60, 14*60).Draw(t, name+" zone")*60)
		sec := rapid.Int64Range(-62_135_596_800, 253_402_300_799-86_400).Draw(t, name)
		at := time.Unix(sec, rapid.Int64Range(0, 999_999_999).Draw(t, name+" ns")).In(zone)
		if at.Year() < 1 {
			at = at.UTC()
		}
		v.Set(reflect.ValueOf(at))
		return
	case decimal.Decimal:
		d := decimal.New(rapid.Int64().Draw(t, name), int32(rapid.IntRange(-25, 8).Draw(t, name+" exp")))
		if rapid.Bool().Draw(t, name+" long") {
			d = d.Mul(d).Neg()
		}
		v.Set(reflect.ValueOf(d))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name+" set") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem(), name)
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(t, name+" len"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				draw(t, v.Index(i), name)
			}
		}
	case reflect.String:
		if rapid.Bool().Draw(t, name+" odd") {
			v.SetString(string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, name)))
			return
		}
		v.SetString(rapid.StringN(0, 12, -1).Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Uint8().Draw(t, name)))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, name))
	case reflect.Float64:
		v.SetFloat(hearth.Figure(rapid.Float64().Draw(t, name))) // that much of it is kept
	default:
		t.Fatalf("field %s has kind %s: teach draw, and encode, to write it", name, v.Kind())
	}
}

func TestEncode(t *testing.T) {
	t.Run("same bytes as the library/drawn", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			var g hearth.Generation
			draw(t, reflect.ValueOf(&g).Elem(), "Generation")
			got, err := encode(&g)
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			if diff := cmp.Diff(library(t, &g), string(got)); diff != "" {
				t.Fatalf("encode differs from the library (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("same bytes as the library/edges", func(t *testing.T) {
		usual := sample("gen-1")
		extreme := sample("gen-2")
		extreme.Bill.Cost, extreme.Usage.PromptTokens = math.MinInt64, math.MaxInt64
		extreme.Requested, extreme.Attempts, extreme.Notes = nil, []hearth.Attempt{}, []string{""}
		extreme.UserAgent = "\x00\x1f\"\\</script>\u2028\xff가"
		for _, g := range []*hearth.Generation{{}, usual, extreme} {
			got, err := encode(g)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(library(t, g), string(got)); diff != "" {
				t.Errorf("encode differs from the library (-want +got):\n%s", diff)
			}
		}
	})
	t.Run("decodes to what it was", func(t *testing.T) {
		want := sample("gen-3")
		want.Drops = []hearth.Drop{{Model: "m", Provider: "acme", Stage: hearth.StageHealth, Reason: "cooling down", Skip: hearth.SkipCooldown}}
		b, err := encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })); diff != "" {
			t.Errorf("after encode and decode (-want +got):\n%s", diff)
		}
	})
	t.Run("a year past 9999 is an error", func(t *testing.T) {
		g := sample("gen-4")
		g.CreatedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
		if _, err := encode(g); err == nil {
			t.Error("encode took the year 10000")
		}
	})
}

func TestShorten(t *testing.T) {
	g := sample("gen-1")
	long := strings.Repeat("가\x00", 1<<20)
	g.UserAgent, g.Title, g.Referer, g.Origin, g.UpstreamID, g.NativeFinish = long, long, long, long, long, long
	for range 1000 {
		g.Requested = append(g.Requested, long)
		g.Attempts = append(g.Attempts, hearth.Attempt{Model: long, Message: long, UpstreamID: long})
		g.Drops = append(g.Drops, hearth.Drop{Model: long, Reason: long})
		g.Notes = append(g.Notes, long)
		g.Routing = append(g.Routing, hearth.Routed{Model: long, Endpoint: long, Reason: long, Candidates: []hearth.RoutedTerms{{Endpoint: long}}})
	}
	b, err := encode(shorten(g))
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 1<<20 {
		t.Errorf("shortened record has %d bytes", len(b))
	}
	got, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if got.Bill.Cost != g.Bill.Cost || got.Usage != g.Usage || got.Endpoint != g.Endpoint || !slices.Contains(got.Notes, noteShortened) {
		t.Errorf("shortened record lost what matters: %+v", got)
	}
	if len(g.Attempts) != 1001 || len(g.Routing) != 1000 || len(g.Routing[0].Candidates) != 1 || len(g.UserAgent) != len(long) {
		t.Error("shorten changed what it was given")
	}
}

func TestRecord_TooLongIsShortened(t *testing.T) {
	b := open(t, t.TempDir(), journal.Options{})
	g := sample("gen-1")
	for range 3000 {
		g.Drops = append(g.Drops, hearth.Drop{Model: "google/gemma-4-26b-a4b", Stage: hearth.StageConditions, Reason: strings.Repeat("because ", 20)})
	}
	if err := b.Record(g); err != nil {
		t.Fatal(err)
	}
	if n := b.journal.Used(); n > maxRecord {
		t.Errorf("the journal holds %d bytes", n)
	}
	got, err := b.Generation(t.Context(), "gen-1")
	if err != nil || got.Bill.Cost != g.Bill.Cost || !slices.Contains(got.Notes, noteShortened) {
		t.Errorf("got %+v, %v", got, err)
	}
}
