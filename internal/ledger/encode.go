package ledger

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

func encode(g *hearth.Generation) ([]byte, error) {
	return json.Marshal(g, jsontext.AllowInvalidUTF8(true))
}
