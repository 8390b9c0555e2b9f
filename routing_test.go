package hearth_test

import (
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// anyFigure draws what a computation may come to, often enough what it should not.
func anyFigure() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(), rapid.Float64Range(1e-9, 1e6), rapid.Float64Range(0, 1),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64,
			0.1, 9.9995, 99995, 0.99995, 9999.5, 1e-12, 1e15, 1e21, 1e-6, 9.99949999e-7, 4.9e-324}))
}

func TestFigure(t *testing.T) {
	t.Run("four digits of it", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			x := anyFigure().Draw(t, "x")
			f := hearth.Figure(x)
			switch {
			case math.IsNaN(x) || math.IsInf(x, 0):
				if f != 0 {
					t.Fatalf("Figure(%v) = %v", x, f)
				}
			case math.Abs(x) > math.MaxFloat64/1.001 || math.Abs(x) < 1e-300: // steps are coarse there
			case math.Abs(f-x) > math.Abs(x)*0.00050001:
				t.Fatalf("Figure(%v) = %v", x, f)
			}
			if again := hearth.Figure(f); again != f {
				t.Fatalf("Figure(%v) = %v, and of that %v", x, f, again)
			}
		})
	})
	for x, want := range map[float64]float64{
		12345: 12350, 12344: 12340, 0.123449: 0.1234, 9999.6: 10000, 1: 1, -2.71828: -2.718, 1e-13: 1e-13, 1.23456e-15: 1.235e-15, 6.02214e23: 6.022e23, 1000: 1000, 999.95: 1000,
	} {
		if got := hearth.Figure(x); got != want {
			t.Errorf("Figure(%v) = %v, want %v", x, got, want)
		}
	}
}

func drawTerms(t *rapid.T) hearth.RoutedTerms {
	f := func(name string) float64 { return anyFigure().Draw(t, name) }
	return hearth.RoutedTerms{
		Endpoint: "e", Share: f("share"), Price: f("price"), Wait: f("wait"), Decode: f("decode"), Failed: f("failed"), Quality: f("quality"),
		Later: f("later"), Total: f("total"), TTFT: f("ttft"), Rest: f("rest"), Cached: f("cached"), Tries: f("tries"), InFlight: rapid.Int().Draw(t, "in flight"),
		Cap: f("cap"), Knee: f("knee"), Errors: f("errors"), Limits: f("limits"), BadTools: f("bad tools"),
		Fixed: f("fixed"), Ramp: f("ramp"), Explored: f("explored"), List: f("list"), OtherPrice: f("other price"), OtherTTFT: f("other ttft"), Queue: f("queue"),
	}
}

// rounded is t as a record holds it.
func rounded(t hearth.RoutedTerms) hearth.RoutedTerms {
	for _, x := range []*float64{&t.Share, &t.Price, &t.Wait, &t.Decode, &t.Failed, &t.Quality, &t.Later, &t.Total, &t.TTFT, &t.Rest, &t.Cached, &t.Tries,
		&t.Cap, &t.Knee, &t.Errors, &t.Limits, &t.BadTools, &t.Fixed, &t.Ramp, &t.Explored, &t.List, &t.OtherPrice, &t.OtherTTFT, &t.Queue} {
		*x = hearth.Figure(*x)
	}
	return t
}

// TestRouted_Append: whatever the figures are, they make JSON that reads back as they were but for digits, and the bytes
// are those of the library.
func TestRouted_Append(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := drawTerms(t)
		text := append(terms.AppendFigures([]byte(`{"endpoint":"e"`)), '}')
		var got hearth.RoutedTerms
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := rounded(terms)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
		if library, err := json.Marshal(want); err != nil || string(library) != string(text) {
			t.Fatalf("%s, the library writes %s, %v", text, library, err)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		r := hearth.Routed{Share: anyFigure().Draw(t, "share"), Kappa: anyFigure().Draw(t, "kappa"), Snapshot: rapid.Uint64().Draw(t, "snapshot"), Session: rapid.Uint64().Draw(t, "session")}
		var got hearth.Routed
		text := append(r.AppendChoice([]byte(`{"model":""`)), '}')
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got.Share != hearth.Figure(r.Share) || got.Kappa != hearth.Figure(r.Kappa) || got.Snapshot != r.Snapshot || got.Session != r.Session {
			t.Fatalf("%+v became %+v", r, got)
		}
		if want := map[bool]int{true: 4, false: 5}[r.Session == 0]; strings.Count(string(text), ":") != want {
			t.Fatalf("%s", text)
		}
	})
}

func BenchmarkRoutedTerms(b *testing.B) {
	t := hearth.RoutedTerms{
		Endpoint: "e", Share: .123456, Price: .00123456, Wait: .000345678, Decode: .000765432, Failed: .0000234567, Quality: .00001212,
		Total: .002345678, TTFT: 1.234567, Rest: 12.34567, Cached: 1234.567, Tries: 1.023456, InFlight: 3, Cap: 23.4567, Knee: 11.1111,
		Errors: .0123456, Limits: .00345678, BadTools: .0101, State: "closed",
	}
	text := make([]byte, 0, 1024)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			text = t.AppendFigures(text[:0])
		}
		b.ReportMetric(float64(len(text)), "B/record")
	})
	b.Run("round", func(b *testing.B) {
		x := 0.0
		for b.Loop() {
			x += hearth.Figure(.000345678 + x*1e-20)
		}
	})
}
