package ledger

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// formatTags lets the library read the format of durations from the tags of hearth.Generation.
var formatTags = json.ExperimentalSupportFormatTag(true)

func encode(g *hearth.Generation) ([]byte, error) {
	return json.Marshal(g, jsontext.AllowInvalidUTF8(true), formatTags)
}

func decode(record []byte) (*hearth.Generation, error) {
	g := new(hearth.Generation)
	if err := json.Unmarshal(record, g, formatTags); err != nil {
		return nil, err
	}
	return g, nil
}
