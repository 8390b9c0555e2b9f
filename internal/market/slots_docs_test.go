package market

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the figures and pictures of docs/slots.md again")

func TestPic(t *testing.T) {
	if !*update {
		t.Skip()
	}
	var b bytes.Buffer
	if err := TurnPicture(&b); err != nil {
		t.Fatal(err)
	}
	os.WriteFile("/tmp/turn.svg", b.Bytes(), 0o600)
}
