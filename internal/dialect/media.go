package dialect

import "slices"

// maxMediaURLs is how many different web addresses the media of a request may have.
const maxMediaURLs = 64

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
