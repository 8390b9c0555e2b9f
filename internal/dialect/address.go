package dialect

import (
	"bytes"
	"slices"

	"myip.co.kr/hearth"
)

const (
	maxMediaURLs  = 64   // different web addresses of media in one request
	maxMediaBytes = 8192 // of one such address, as it is written
	// maxMediaPlaces is how often addresses may stand in a request, the same one again included.
	maxMediaPlaces = 1024
)

// address is a string in the messages that says where media can be fetched, by offsets into the body with the quotes.
type address struct {
	from, to uint32
	bare     bool // the place takes base64 data without the head of a data URL
}

// MediaURLs lists the web addresses of the media in the messages, each once, in their order. They are http and https
// addresses as the caller wrote them, 64 at most.
func (c *Chat) MediaURLs() []string {
	var urls []string
	for _, a := range c.media {
		url := string(unquote(c.raw[a.from:a.to]))
		if !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	return urls
}

// web keeps a web address.
func (d *decoding) web(at place, s source) error {
	c := d.chat
	text := d.raw[s.from:s.to]
	switch {
	case len(text) > maxMediaBytes:
		return hearth.Invalid(s.path(at), "the address is longer than %d bytes", maxMediaBytes)
	case len(c.media) == maxMediaPlaces:
		return hearth.Invalid(s.path(at), "the messages hold more than %d addresses of media", maxMediaPlaces)
	}
	if !slices.ContainsFunc(d.urls, func(u []byte) bool { return bytes.Equal(u, text) }) {
		if len(d.urls) == maxMediaURLs {
			return hearth.Invalid(s.path(at), "the messages name media at more than %d different addresses", maxMediaURLs)
		}
		d.urls = append(d.urls, text)
	}
	c.media = append(c.media, address{uint32(s.from), uint32(s.to), string(s.name) == "data"})
	return nil
}

// form is what a string looks like to somebody who looks for an address.
type form uint8

const (
	noAddress    form = iota // a word, base64 data, a path
	webAddress               // http://… or https://…
	dataAddress              // data:…
	otherAddress             // what might still be fetched or opened by somebody
)

// formOf looks at the beginning of the text between the quotes of a JSON string. White space and control characters in
// front are passed over, as some readers do, but make an address one that is not taken.
func formOf(text []byte) form {
	const longest = 32 // of the schemes that are told apart here, with much room
	front := padding(text)
	text = text[front:]
	bare := text[:min(len(text), longest)]
	if bytes.IndexByte(bare, '\\') >= 0 {
		n := 0
		for range longest {
			if n < len(text) {
				n += max(1, escape(text[n:]))
			}
		}
		bare = unquote(slices.Concat([]byte{'"'}, text[:n], []byte{'"'}))
	}
	colon := bytes.IndexByte(bare, ':')
	if colon < 2 { // none, or the drive of a path
		return noAddress
	}
	for _, c := range bare[:colon] {
		if c|0x20 < 'a' && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' || c|0x20 > 'z' {
			return noAddress
		}
	}
	scheme, slashes := bare[:colon], bytes.HasPrefix(bare[colon+1:], []byte("//"))
	is := func(name string) bool { return bytes.EqualFold(scheme, []byte(name)) }
	switch {
	case (is("http") || is("https")) && slashes && front == 0:
		return webAddress
	case is("data") && front == 0:
		return dataAddress
	case slashes, is("http"), is("https"), is("data"), is("file"):
		return otherAddress
	}
	return noAddress
}

// padding is how many bytes of a JSON string's text spell white space and control characters.
func padding(text []byte) int {
	for i := 0; ; {
		rest := text[i:]
		switch {
		case len(rest) > 0 && rest[0] <= ' ':
			i++
		case len(rest) > 1 && rest[0] == '\\' && bytes.IndexByte([]byte("bfnrt"), rest[1]) >= 0:
			i += 2
		case len(rest) >= 6 && string(rest[:4]) == `\u00` && (rest[4] <= '1' || string(rest[4:6]) == "20"):
			i += 6
		default:
			return i
		}
	}
}

// isData says whether a string is a data URL (RFC 2397) in base64.
func isData(text []byte) bool {
	return bytes.Contains(text[:min(len(text), 256)], []byte(";base64,")) && formOf(text) == dataAddress
}
