// Package node connects gateways to the slots of another machine. Server is that machine's side: it owns the slots, lets
// gateways send requests to its engines and tells them what its slots do. Client is the gateway's side, one for each such
// machine: it knows the slots by what the machine last said, and is silent about what it does not know.
//
// One protocol, HTTP/2 over TLS or in the clear, carries everything: what a gateway has begun and leaves is noticed at
// once, however much of its request is still unread.
package node

import (
	"strings"
	"time"

	"myip.co.kr/hearth"
)

// Names of the headers between a gateway and a machine. They reach neither callers nor engines.
const (
	headBudget     = "X-Hearth-Budget-Ms"   // how long the request may wait for the slot, in ms
	headHasNext    = "X-Hearth-Has-Next"    // 1: the gateway has another candidate
	headGeneration = "X-Hearth-Generation"  // id of the request
	headKey        = "X-Hearth-Key"         // stands for the caller's key: waiting requests take turns by it
	headClass      = "X-Hearth-Class"       // of that key: interactive, or batch
	headAlso       = "X-Hearth-Also"        // names of further slots of the node that would do, with commas
	headModel      = "X-Hearth-Model"       // id of the model that the gateway means
	headStatus     = "X-Hearth-Slot-Status" // slot word of a 503
	headUnsent     = "X-Hearth-Unsent"      // 1, with a slot word: the engine was gone before it could do anything about the request
	headWaited     = "X-Hearth-Waited-Ms"   // how long the request waited for the slot, in ms
)

// stale is the age at which what is known of a machine is known no more.
const stale = 2 * time.Second

// Paths.
const (
	viewsPath  = "/v1/views"
	slotsPath  = "/v1/slots/"
	logRoute   = "/log"
	startRoute = "/starts"
	voteRoute  = "/vote"
)

// chat is the route of chat requests.
const chat = "/v1/chat/completions"

// routes are the paths of an engine that gateways may ask: answers, and the counting of prompts.
var routes = map[string]bool{chat: true, "/v1/completions": true, "/v1/embeddings": true, "/tokenize": true, "/apply-template": true}

// counts are those of the counting of prompts.
var counts = map[string]bool{"/tokenize": true, "/apply-template": true}

// words are the slot words.
var words = map[string]hearth.SkipReason{
	string(hearth.SkipLoading): hearth.SkipLoading, string(hearth.SkipBusy): hearth.SkipBusy,
	string(hearth.SkipFailed): hearth.SkipFailed, string(hearth.SkipQueueFull): hearth.SkipQueueFull,
}

// split takes the path of a request to a slot apart. Slot names have no slash.
func split(path string) (slot, route string, ok bool) {
	rest, ok := strings.CutPrefix(path, slotsPath)
	if !ok {
		return "", "", false
	}
	slot, route, ok = strings.Cut(rest, "/")
	return slot, "/" + route, ok && slot != ""
}
