package slot

import "myip.co.kr/hearth"

// NotFirst is why a slot that was asked for is not the one that serves, when another slot that would do was ready first. v
// is its view at that moment.
func NotFirst(v hearth.SlotView) (hearth.SkipReason, string) {
	switch {
	case v.State == hearth.SlotFailed:
		return hearth.SkipFailed, "its engine has failed, and another slot of the node was ready first"
	case v.State == hearth.SlotReady:
		return hearth.SkipBusy, "another slot of the node had a free place first"
	case v.OtherBusy:
		return hearth.SkipBusy, "the GPU is busy with another model, which was ready first"
	}
	return hearth.SkipLoading, "another slot of the node was ready first"
}
