package hearth

// Request is what the gateway needs to know of a chat request to route and bill it. The body itself is never
// rebuilt from it: it is forwarded byte for byte, but for the keys the gateway owns.
type Request struct {
	Models    []string    // as asked, in the caller's order; empty = the default model
	FromList  bool        // asked with models[]: an unknown id is no candidate instead of an error
	Stream    bool        // by body.stream alone, never by Accept
	MaxTokens int         // max_completion_tokens or max_tokens, 0 = not given
	Tools     bool        // the request offers tools
	Images    int         // image parts in the messages, counted at the endpoint's ImageTokens
	Estimate  int         // generous prompt size in tokens, images not included; never used for billing
	Prefs     Preferences // the provider object
	Notes     []string    // what was accepted and ignored, for X-MyIP-Note
}

// Preferences is the caller's provider object. Names are slugs, tags or display names.
type Preferences struct {
	Only, Ignore, Order []string
	Sort                string // "" or "price"
	NoFallbacks         bool   // allow_fallbacks: false
}
