package fx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
)

const (
	fetchLimit = 15 * time.Second // for one fetch, redirects included
	maxBody    = 4 << 20
	maxDigits  = 40 // of a number that is taken for a rate
	// finest is how many decimals a rate keeps; an inverted one has no end.
	finest = 18
)

func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.DisableKeepAlives = 1, true // it is asked once an hour
	return &http.Client{Transport: transport, Timeout: fetchLimit, CheckRedirect: sameHost}
}

// sameHost follows no redirect to another host: net/http would take the operator's headers there, but for the well-known
// ones.
func sameHost(next *http.Request, via []*http.Request) error {
	if len(via) > 5 {
		return errors.New("too many redirects")
	}
	if first := via[0]; next.URL.Host != first.URL.Host || next.URL.Scheme != first.URL.Scheme {
		return fmt.Errorf("it redirects to %s; write that address as url", next.URL.Redacted())
	}
	return nil
}

// fetch reads the rate a source publishes now.
func fetch(ctx context.Context, client *http.Client, s Source) (decimal.Decimal, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return decimal.Decimal{}, bare(err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "hearth")
	for name, secret := range s.Headers {
		req.Header.Set(name, string(secret))
	}
	resp, err := client.Do(req)
	if err != nil {
		return decimal.Decimal{}, bare(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return decimal.Decimal{}, fmt.Errorf("it answered %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return decimal.Decimal{}, bare(err)
	case len(body) > maxBody:
		return decimal.Decimal{}, fmt.Errorf("its answer is longer than %d MiB", maxBody>>20)
	}
	return read(body, s)
}

// bare takes the address out of an error: it may hold a key.
func bare(err error) error {
	var where *url.Error
	if errors.As(err, &where) {
		return where.Err
	}
	return err
}

// read finds the rate in an answer.
func read(body []byte, s Source) (decimal.Decimal, error) {
	none := decimal.Decimal{}
	text, err := at(body, jsontext.Pointer(s.Pointer))
	if err != nil {
		return none, err
	}
	if len(text) > maxDigits {
		return none, fmt.Errorf("what stands at %s is not a rate: it has %d digits", s.Pointer, len(text))
	}
	value, err := decimal.NewFromString(text)
	if err != nil || value.Exponent() > finest || value.Exponent() < -2*finest {
		return none, fmt.Errorf("what stands at %s is not a rate: %q", s.Pointer, text)
	}
	if !value.IsPositive() {
		return none, fmt.Errorf("what stands at %s is not a rate: it is %s", s.Pointer, value)
	}
	if s.Invert {
		value = decimal.NewFromInt(1).DivRound(value, finest)
	}
	if value = value.RoundBank(finest); !value.IsPositive() {
		return none, fmt.Errorf("what stands at %s is not a rate: it comes to 0", s.Pointer)
	}
	return value, nil
}

// at is the text of the number, or of the string, that a pointer leads to.
func at(body []byte, pointer jsontext.Pointer) (string, error) {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	for {
		kind := d.PeekKind()
		token, err := d.ReadToken()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return "", fmt.Errorf("nothing stands at %s in its answer", pointer)
			}
			return "", errors.New("its answer is not JSON")
		}
		if d.StackPointer() != pointer || kind == '}' || kind == ']' {
			continue
		}
		switch kind {
		case '0':
			return token.String(), nil
		case '"':
			if depth := d.StackDepth(); depth > 0 {
				if of, length := d.StackIndex(depth); of == '{' && length%2 == 1 {
					continue // the name of the member, not yet its value
				}
			}
			return token.String(), nil
		case '{', '[', 't', 'f', 'n':
			return "", fmt.Errorf("what stands at %s in its answer is no number", pointer)
		}
	}
}
