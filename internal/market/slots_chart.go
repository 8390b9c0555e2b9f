package market

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// Measures of the chart, in pixels.
const (
	chartName  = 420 // width of the names
	chartPanel = 250 // width of a panel
	chartGap   = 40
	chartRow   = 20
	chartHead  = 64
)

// SlotChart draws, for every scenario, what part of the requests the GPU served and what loads that took, as SVG.
func SlotChart(to io.Writer, results []SlotResult) error {
	w := bufio.NewWriter(to)
	height := chartHead + chartRow*len(results) + 12
	svgHead(w, chartName+2*(chartPanel+chartGap), height, "What the GPU served, and the loads that it took")
	shares := panel{x: chartName, title: "part that the GPU served", marks: []float64{0, 0.25, 0.5, 0.75, 1}, at: func(v float64) float64 { return v }}
	loads := panel{x: chartName + chartPanel + chartGap, title: "loads per 100 that it served", marks: []float64{1, 3, 10, 30, 100}, at: func(v float64) float64 {
		return math.Log(min(200, max(1, v))) / math.Log(200)
	}}
	for _, p := range []panel{shares, loads} {
		p.axis(w, height-12)
	}
	x := 8
	for _, m := range markers {
		fmt.Fprint(w, m.draw(float64(x+5), 16))
		fmt.Fprintf(w, "<text x=\"%d\" y=\"20\">%s</text>\n", x+16, m.policy)
		x += 100
	}
	for i := range results {
		y := chartHead + chartRow*i + chartRow/2
		fmt.Fprintf(w, "<text x=\"8\" y=\"%d\">%s</text>\n", y+4, escaped(results[i].Name))
		for _, m := range markers {
			f, ok := results[i].Policies[m.policy]
			if !ok {
				continue
			}
			if f.LocalShare != nil {
				fmt.Fprint(w, m.draw(shares.place(*f.LocalShare), float64(y)))
			}
			fmt.Fprint(w, m.draw(loads.place(f.LoadsPer100), float64(y)))
		}
	}
	fmt.Fprint(w, "</svg>\n")
	return w.Flush()
}

// svgHead begins a picture with a white ground and its title.
func svgHead(w io.Writer, width, height int, title string) {
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"system-ui,sans-serif\" font-size=\"12\" role=\"img\">\n", width, height, width, height)
	fmt.Fprintf(w, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", escaped(title))
}

func escaped(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return ""
	}
	return b.String()
}

// panel is one of the chart's scales.
type panel struct {
	x     int
	title string
	marks []float64
	at    func(float64) float64 // 0 to 1
}

func (p panel) place(v float64) float64 { return float64(p.x) + p.at(v)*chartPanel }

func (p panel) axis(w io.Writer, bottom int) {
	fmt.Fprintf(w, "<text x=\"%d\" y=\"38\" font-weight=\"bold\">%s</text>\n", p.x, p.title)
	for _, m := range p.marks {
		x := p.place(m)
		fmt.Fprintf(w, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"58\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"54\" text-anchor=\"middle\" fill=\"#555\">%g</text>\n", x, x, bottom, x, m)
	}
}

// marker is how a policy is drawn.
type marker struct {
	policy string
	shape  string // with its middle at 0, 0
}

var markers = []marker{
	{PolicyHearth, `<circle r="5" fill="#c2410c"/>`},
	{PolicyFIFO, `<path d="M-4-4 4 4M-4 4 4-4" stroke="#1d4ed8" stroke-width="2"/>`},
	{PolicyNoAgeing, `<circle r="4" fill="none" stroke="#15803d" stroke-width="2"/>`},
	{PolicyClairvoyant, `<path d="M0-7V7" stroke="#000" stroke-width="2"/>`},
}

func (m marker) draw(x, y float64) string {
	return fmt.Sprintf("<g transform=\"translate(%.1f %.1f)\">%s</g>\n", x, y, m.shape)
}
