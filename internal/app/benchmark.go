package app

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// benchRow is one score of a benchmark: more is better.
type benchRow struct {
	line     int // where it stands, from 1; of JSON the number of the entry
	model    string
	provider string // slug or tag
	score    float64
	sigma    float64 // standard error of the score, 0 = not said
}

// Measured is what a benchmark says of an endpoint.
type Measured struct {
	Score    float64 `json:"score"`
	Expected float64 `json:"expected"` // the median over the model's providers in the same file
	Sigma    float64 `json:"sigma"`
}

// sigmasBelow is how many of its sigmas a score may lie below the model's before the endpoint is flagged.
const sigmasBelow = 2

// why is the reason of the flag, "" = the endpoint is as good as it should be.
func (m Measured) why() string {
	if m.Score >= m.Expected-sigmasBelow*m.Sigma {
		return ""
	}
	return fmt.Sprintf("benchmark: %s, where %s is usual for the model and %s is one sigma", figure(m.Score), figure(m.Expected), figure(m.Sigma))
}

func figure(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

const (
	benchMost = 100_000 // rows
	benchFew  = 4       // rows of a model whose spread says what a sigma is
	benchName = 300     // bytes
)

// measured holds a benchmark against a catalog: what it says of each of its external endpoints, by their ids, and how many
// rows are of models or providers that are not there. An error names every line that is wrong.
func measured(cat *hearth.Catalog, body []byte) (of map[string]Measured, others int, err error) {
	rows, err := benchRows(body)
	if err != nil {
		return nil, 0, err
	}
	byModel := map[string][]benchRow{}
	for _, r := range rows {
		id := r.model
		if m := cat.Resolve(id); m != nil {
			id = m.ID
		}
		byModel[id] = append(byModel[id], r)
	}
	of = map[string]Measured{}
	var errs []error
	for id, list := range byModel {
		expected, spread := middle(list)
		m := cat.Model(id)
		for _, r := range list {
			found := false
			if m != nil {
				for _, e := range m.Endpoints {
					if e.Local() || !strings.EqualFold(e.Provider.Slug, r.provider) && !strings.EqualFold(e.Tag, r.provider) {
						continue
					}
					found = true
					sigma := cmp.Or(r.sigma, spread)
					if sigma == 0 {
						errs = append(errs, fmt.Errorf("line %d: there is no sigma, and fewer than %d different scores of %s from which one could be told", r.line, benchFew, shownName(id)))
						break
					}
					of[e.ID] = Measured{Score: r.score, Expected: expected, Sigma: sigma}
				}
			}
			if !found {
				others++
			}
		}
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(x, y error) int { return cmp.Compare(lineOf(x), lineOf(y)) })
		return nil, 0, errors.Join(errs...)
	}
	return of, others, nil
}

func lineOf(err error) (n int) {
	_, _ = fmt.Sscanf(err.Error(), "line %d", &n) // 0 = it has none
	return n
}

// middle is the median score of a model, and how far scores usually lie from it as a standard deviation: 1.4826 times the
// median distance, 0 = there are too few.
func middle(list []benchRow) (median, spread float64) {
	scores := make([]float64, len(list))
	for i, r := range list {
		scores[i] = r.score
	}
	median = medianOf(scores)
	if len(list) < benchFew {
		return median, 0
	}
	for i, r := range list {
		scores[i] = math.Abs(r.score - median)
	}
	return median, 1.4826 * medianOf(scores)
}

func medianOf(xs []float64) float64 {
	slices.Sort(xs)
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// benchRows reads CSV with a head of model,provider,score and perhaps sigma, or a JSON array of objects with such keys.
func benchRows(body []byte) ([]benchRow, error) {
	var rows []benchRow
	var err error
	if body = bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\xef\xbb\xbf")); len(body) > 0 && body[0] == '[' {
		rows, err = benchJSON(body)
	} else {
		rows, err = benchCSV(body)
	}
	if err == nil && len(rows) == 0 {
		err = errors.New("the benchmark has no scores")
	}
	return rows, err
}

func benchJSON(body []byte) ([]benchRow, error) {
	var list []struct {
		Model    string   `json:"model"`
		Provider string   `json:"provider"`
		Score    *float64 `json:"score"`
		Sigma    float64  `json:"sigma"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		var bad *json.SemanticError
		var syntax *jsontext.SyntacticError
		switch {
		case errors.As(err, &bad):
			return nil, fmt.Errorf("at %s: it is not what it should be: give a list of objects with model, provider, score and perhaps sigma", bad.JSONPointer)
		case errors.As(err, &syntax):
			return nil, fmt.Errorf("at byte %d: this is not JSON", syntax.ByteOffset)
		}
		return nil, err
	}
	if len(list) > benchMost {
		return nil, fmt.Errorf("there are %d scores: %d is the most", len(list), benchMost)
	}
	var rows []benchRow
	var errs []error
	for i, x := range list {
		r := benchRow{line: i + 1, model: x.Model, provider: x.Provider, sigma: x.Sigma}
		if x.Score == nil {
			errs = append(errs, fmt.Errorf("line %d: there is no score", r.line))
			continue
		}
		r.score = *x.Score
		if err := r.check(); err != nil {
			errs = append(errs, err)
		}
		rows = append(rows, r)
	}
	return rows, errors.Join(errs...)
}

func benchCSV(body []byte) ([]benchRow, error) {
	in := csv.NewReader(bytes.NewReader(body))
	in.FieldsPerRecord, in.TrimLeadingSpace, in.Comment, in.ReuseRecord = -1, true, '#', true
	head, err := in.Read()
	at := map[string]int{}
	for i, name := range head {
		at[strings.ToLower(strings.TrimSpace(name))] = i + 1
	}
	if err != nil || at["model"] == 0 || at["provider"] == 0 || at["score"] == 0 {
		return nil, errors.New("line 1: the head must name the columns model, provider, score and perhaps sigma")
	}
	var rows []benchRow
	var errs []error
	for {
		rec, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, errors.Join(errs...)
		}
		line, _ := in.FieldPos(0)
		switch {
		case err != nil:
			return nil, errors.Join(append(errs, fmt.Errorf("line %d: this is not CSV", line))...)
		case len(rows) == benchMost:
			return nil, fmt.Errorf("line %d: %d scores are the most", line, benchMost)
		}
		r := benchRow{line: line}
		cell := func(name string) string {
			if i := at[name]; i > 0 && i <= len(rec) {
				return strings.TrimSpace(rec[i-1])
			}
			return ""
		}
		r.model, r.provider = strings.Clone(cell("model")), strings.Clone(cell("provider"))
		if err = number(line, "score", cell("score"), &r.score); err == nil && cell("sigma") != "" {
			err = number(line, "sigma", cell("sigma"), &r.sigma)
		}
		if err = cmp.Or(err, r.check()); err != nil {
			errs = append(errs, err)
		}
		rows = append(rows, r)
	}
}

func number(line int, what, text string, to *float64) (err error) {
	if *to, err = strconv.ParseFloat(text, 64); err != nil {
		return fmt.Errorf("line %d: the %s %s is not a number", line, what, shownName(text))
	}
	return nil
}

func (r *benchRow) check() error {
	const most = 1e12
	switch {
	case r.model == "" || len(r.model) > benchName:
		return fmt.Errorf("line %d: there is no model", r.line)
	case r.provider == "" || len(r.provider) > benchName:
		return fmt.Errorf("line %d: there is no provider", r.line)
	case !(math.Abs(r.score) < most):
		return fmt.Errorf("line %d: the score is out of all bounds", r.line)
	case !(r.sigma >= 0 && r.sigma < most):
		return fmt.Errorf("line %d: the sigma must be a number from 0 on", r.line)
	}
	return nil
}

// shownName quotes a name of a file, cut to a sensible length.
func shownName(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}
