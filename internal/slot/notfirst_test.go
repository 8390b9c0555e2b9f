package slot

import (
	"testing"

	"myip.co.kr/hearth"
)

func TestNotFirst(t *testing.T) {
	for name, c := range map[string]struct {
		v    hearth.SlotView
		want hearth.SkipReason
	}{
		"asleep":                   {hearth.SlotView{}, hearth.SkipLoading},
		"starting":                 {hearth.SlotView{State: hearth.SlotStarting}, hearth.SkipLoading},
		"behind another model":     {hearth.SlotView{OtherBusy: true}, hearth.SkipBusy},
		"ready without a place":    {hearth.SlotView{State: hearth.SlotReady}, hearth.SkipBusy},
		"failed":                   {hearth.SlotView{State: hearth.SlotFailed}, hearth.SkipFailed},
		"failed, another is there": {hearth.SlotView{State: hearth.SlotFailed, OtherBusy: true}, hearth.SkipFailed},
	} {
		if word, says := NotFirst(c.v); word != c.want || says == "" {
			t.Errorf("%s: %s %q", name, word, says)
		}
	}
}
