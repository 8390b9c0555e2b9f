package routing

import (
	"bytes"
	flags "flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

//go:generate go test -run ^TestDocs$ . -update

var update = flags.Bool("update", false, "write the example of docs/routing.md again")

const (
	pageFile    = "../../docs/routing.md"
	pictureFile = "../../docs/routing-cost.svg"
	exampleFrom = "<!-- example: written by go test ./internal/routing -run TestDocs -update -->\n"
	exampleTo   = "<!-- end of the example -->\n"
)

// shop is a provider of the page's example.
type shop struct {
	name        string
	in, out     float64 // per 1,000,000 tokens
	ttft, speed float64
	errors      float64
}

var shops = []shop{
	{"cheap", 0.2, 0.6, 2.5, 25, 0.08},
	{"steady", 0.25, 0.75, 0.8, 60, 0.005},
	{"quick", 0.4, 1.2, 0.4, 150, 0.005},
	{"dear", 0.6, 1.8, 0.9, 50, 0.005},
}

const exampleIn, exampleOut = 2000.0, 500.0

// exampleView is what a router knows of the shops when it has measured them for long.
func exampleView(kappa float64) (*view, query) {
	v := &view{in: exampleIn, out: exampleOut, perToken: perToken(exampleIn), real: 1, kappa: kappa}
	for _, s := range shops {
		r := row{
			lists: []list{{above: -1, prompt: s.in / 1e6, cached: s.in / 1e6, completion: s.out / 1e6}}, adjust: 1,
			levels: levels{ttft: s.ttft, slowTTFT: s.ttft, decode: 1 / s.speed, slowDecode: 1 / s.speed}, knee: math.Inf(1), cap: math.Inf(1), errors: s.errors, ramp: 1,
		}
		r.usual()
		v.rows = append(v.rows, r)
	}
	q := query{in: exampleIn, out: exampleOut, kappa: kappa}
	v.value(&Options{}, q)
	for i := range v.rows {
		v.rows[i].fails(&estimate{}, v)
	}
	return v, q
}

// exampleTier is how a record would tell of a request to the shops.
func exampleTier(kappa float64) (*hearth.Routed, *view) {
	v, q := exampleView(kappa)
	t := &hearth.Routed{Kappa: kappa}
	for i := range v.rows {
		var got terms
		v.cost(&got, &v.rows[i], &q, 0)
		w := Terms{Cost: got.Cost, TTFT: got.ttft, Rest: got.rest, Tries: v.rows[i].tries, Standing: InUse}
		w.Fixed = v.rows[i].fail0
		t.Candidates = append(t.Candidates, w.Recorded(shops[i].name))
	}
	return t, v
}

func exampleShares(kappa float64) []float64 {
	t, _ := exampleTier(kappa)
	chances := make([]Chance, len(t.Candidates))
	Replay(t, 0, nil, chances)
	out := make([]float64, len(chances))
	for i := range chances {
		out[i] = chances[i].Share
	}
	return out
}

// example is the text of the page's example.
func example() string {
	var b strings.Builder
	t, v := exampleTier(defaultKappa)
	second := v.kappa * v.lambda
	fmt.Fprintf(&b, "Half of the providers charge more than $%.3f for 1,000 answers, and twice what the fastest tenth of them takes for one is %.1f s. (What is really paid in\n", 1000*v.unit, v.unit/v.lambda)
	fmt.Fprintf(&b, "a mix by price bounds it, where that is less than half of it; here it is not.) So at the default `kappa` of %g a second after the first token is worth\n", v.kappa)
	fmt.Fprintf(&b, "%g × $%.3f ÷ %.1f = $%.3f for 1,000 answers, which is $%.2f an hour, and one before it %g times that: $%.3f.\n\n", v.kappa, 1000*v.unit, v.unit/v.lambda, 1000*second, 3600*second, firstWeight, 1000*second*firstWeight)
	b.WriteString("| | price | + wait for the first token | + the rest | + failed tries | = routing cost | over the lowest | share |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	lowest := math.Inf(1)
	for i := range t.Candidates {
		lowest = min(lowest, t.Candidates[i].Total)
	}
	shares := exampleShares(defaultKappa)
	for i := range t.Candidates {
		c := &t.Candidates[i]
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f | %.2f | **%.2f** | %.0f %% | %.0f %% |\n", c.Endpoint, 1000*c.Price, 1000*c.Wait, 1000*c.Decode, 1000*c.Failed, 1000*c.Total, 100*(c.Total/lowest-1), 100*shares[i])
	}
	b.WriteString("\n![What a good answer costs at four providers: price, waiting, failed tries](routing-cost.svg)\n\nThe same four with another value of time:\n\n| kappa |")
	for _, s := range shops {
		fmt.Fprintf(&b, " %s |", s.name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(shops)) + "\n")
	for _, k := range []float64{0.1, 0.6, 1.2, 1.7, 3} {
		fmt.Fprintf(&b, "| %g |", k)
		for _, s := range exampleShares(k) {
			fmt.Fprintf(&b, " %.0f %% |", 100*s)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// examplePicture draws the routing costs, by their terms.
func examplePicture() []byte {
	const left, wide, line, top = 80.0, 430.0, 34.0, 40.0
	var b bytes.Buffer
	t, _ := exampleTier(defaultKappa)
	shares := exampleShares(defaultKappa)
	most := 0.0
	for i := range t.Candidates {
		most = max(most, t.Candidates[i].Total)
	}
	title := "What a good answer costs at four providers, $ for 1,000 answers"
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 %.0f\" width=\"700\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\"><title>%s</title>\n", top+4*line+30, top+4*line+30, title)
	fmt.Fprintf(&b, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"8\" y=\"18\" font-weight=\"bold\">%s</text>\n", title)
	kinds := [...]struct{ name, colour string }{{"price", "#1d4ed8"}, {"first token", "#f59e0b"}, {"rest of the answer", "#fde68a"}, {"failed tries", "#dc2626"}}
	for i := range t.Candidates {
		c := &t.Candidates[i]
		x, y := left, top+line*float64(i)
		fmt.Fprintf(&b, "<text x=\"8\" y=\"%.0f\">%s</text>\n", y+15, c.Endpoint)
		for k, v := range [...]float64{c.Price, c.Wait, c.Decode, c.Failed} {
			w := v / most * wide
			fmt.Fprintf(&b, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"22\" fill=\"%s\"><title>%s %.2f</title></rect>\n", x, y, w, kinds[k].colour, kinds[k].name, 1000*v)
			x += w
		}
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.0f\">%.2f, %.0f %% of the traffic</text>\n", x+6, y+15, 1000*c.Total, 100*shares[i])
	}
	x := left
	for _, k := range kinds {
		fmt.Fprintf(&b, "<rect x=\"%.0f\" y=\"%.0f\" width=\"11\" height=\"11\" fill=\"%s\"/><text x=\"%.0f\" y=\"%.0f\">%s</text>\n", x, top+4*line+6, k.colour, x+15, top+4*line+16, k.name)
		x += 30 + 7*float64(len(k.name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// TestDocs keeps the example and the picture of docs/routing.md in step with the code.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), exampleFrom)
	old, after, end := strings.Cut(rest, exampleTo)
	if !ok || !end {
		t.Fatal("docs/routing.md has no example")
	}
	if *update {
		text := before + exampleFrom + "\n" + example() + "\n" + exampleTo + after
		for name, b := range map[string][]byte{pageFile: []byte(text), pictureFile: examplePicture()} {
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Error(err)
			}
		}
		return
	}
	if want := "\n" + example() + "\n"; old != want {
		t.Errorf("the example of docs/routing.md is out of date (make docs writes it):\n%s", want)
	}
	if picture, err := os.ReadFile(pictureFile); err != nil || !bytes.Equal(picture, examplePicture()) {
		t.Errorf("docs/routing-cost.svg is out of date (make docs writes it): %v", err)
	}
	for what, words := range map[string]string{ // figures in the text
		fmt.Sprintf("by more than %.0f %%", 100*(stickWithin-1)):                                      "a session moves",
		fmt.Sprintf("%.0f %% above the lowest", 100*band):                                             "the band",
		fmt.Sprintf("would wait %.1f seconds", shops[0].ttft+exampleOut/shops[0].speed):               "the cheapest",
		fmt.Sprintf("`kappa` of %g", defaultKappa):                                                    "the default",
		fmt.Sprintf("%.0f %% of a model's first tries", 100*defaultExplore):                           "exploration",
		fmt.Sprintf("%.0f minutes", warmFor/60):                                                       "a cache",
		fmt.Sprintf("%g times", firstWeight):                                                          "the first token",
		fmt.Sprintf("from %.0f %% of its cap on", 100*crowded):                                        "crowded",
		fmt.Sprintf("%.2f an hour, in your currency, where the typical price is 0", defaultTimeValue): "time_value",
		fmt.Sprintf("for %.0f s, then longer each time, up to %.0f s", openFirst, openMax):            "the breaker",
		fmt.Sprintf("%.0f in a row close it", float64(closeWins)):                                     "the breaker closes",
		fmt.Sprintf("more than %.0f %% of its tool calls", 100*flagBar):                               "the flag",
		fmt.Sprintf("for at least %.0f minutes", flagMin/60):                                          "the flag's time",
	} {
		if !strings.Contains(strings.ReplaceAll(string(page), "\n", " "), what) {
			t.Errorf("docs/routing.md does not say %q of %s", what, words)
		}
	}
}
