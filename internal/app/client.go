package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
)

// ErrNotRunning says that no gateway answers on an admin socket.
var ErrNotRunning = errors.New("no gateway is running")

// Client speaks to a gateway as its operator.
type Client struct {
	base string // of the routes, without a final slash
	key  string // "" = none is needed
	http *http.Client
}

// ClientAt is a client of the gateway whose routes are under base, such as http://127.0.0.1:8800/api/v1.
func ClientAt(base, key string) *Client {
	return &Client{base: strings.TrimRight(base, "/"), key: key, http: &http.Client{Transport: http.DefaultTransport}}
}

// DialAdmin is a client of the gateway that runs with a data directory. The error wraps ErrNotRunning if none does.
func DialAdmin(ctx context.Context, dataDir string) (*Client, error) {
	path := socketPath(dataDir)
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%w that could be asked: the path of its admin socket, %s, would have more than %d bytes", ErrNotRunning, path, maxSocketPath)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", path)
	}
	first, err := dial(ctx, "", "")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w with this configuration: nothing answers on %s", ErrNotRunning, path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the gateway is another user's: %s may not be used; be that user, or name the gateway with --url and an admin key", path)
	case err != nil:
		return nil, fmt.Errorf("speak to the gateway: %w", err)
	}
	_ = first.Close() // it has said what it was made for
	return &Client{base: "http://admin/api/v1", http: &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
}

// Close ends the client's connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Open sends a request to a route under the client's base, such as /slots, and returns the body of a good answer. The error
// is a *hearth.Error if the gateway refused.
func (c *Client) Open(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	return c.send(ctx, method, c.base+path, body)
}

// Do is Open with the answer read.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	return c.read(ctx, method, c.base+path, body)
}

func (c *Client) read(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	answer, err := c.send(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	b, err := io.ReadAll(io.LimitReader(answer, maxAdmin))
	if err != nil {
		return nil, fmt.Errorf("read the gateway's answer: %w", err)
	}
	return b, nil
}

func (c *Client) send(ctx context.Context, method, url string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the gateway: %w", err)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the gateway: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // half a message is better than none
	return nil, refusal(resp.StatusCode, b)
}

// refusal is the error of an answer that is none.
func refusal(status int, body []byte) error {
	var doc struct {
		Error struct {
			Message string           `json:"message"`
			Type    hearth.ErrorType `json:"type"`
			Param   string           `json:"param"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &doc); err != nil || doc.Error.Message == "" {
		return fmt.Errorf("the gateway answered %d %s", status, http.StatusText(status))
	}
	e := doc.Error
	return &hearth.Error{Type: e.Type, Status: status, Message: e.Message, Param: e.Param}
}

// keysURL is where the admin socket answers about keys.
const keysURL = "http://admin" + keysPath

// socketKeys are the keys of a running gateway.
type socketKeys struct{ *Client }

func (k socketKeys) ask(ctx context.Context, method string, body, answer any) error {
	var raw []byte
	var err error
	if body != nil {
		if raw, err = json.Marshal(body); err != nil {
			return fmt.Errorf("ask the gateway: %w", err)
		}
	}
	if raw, err = k.read(ctx, method, keysURL, raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("read the gateway's answer: %w", err)
	}
	return nil
}

func (k socketKeys) wires(ctx context.Context) (list []keyWire, err error) {
	err = k.ask(ctx, http.MethodGet, nil, &list)
	return list, err
}

// List reads all keys, oldest first.
func (k socketKeys) List(ctx context.Context) ([]hearth.Key, error) {
	list, err := k.wires(ctx)
	keys := make([]hearth.Key, len(list))
	for i := range list {
		keys[i] = list[i].key()
	}
	return keys, err
}

// Spent is what every key spent, by key id.
func (k socketKeys) Spent(ctx context.Context) (map[string]KeySpend, error) {
	list, err := k.wires(ctx)
	by := make(map[string]KeySpend, len(list))
	for _, w := range list {
		if len(w.Spent.Ever) > 0 {
			by[w.ID] = w.Spent
		}
	}
	return by, err
}

// Create has the gateway make a key.
func (k socketKeys) Create(ctx context.Context, key hearth.Key) (plain string, made hearth.Key, err error) {
	var w keyWire
	err = k.ask(ctx, http.MethodPost, toWire(key), &w)
	return w.Plain, w.key(), err
}

// Change has the gateway change a key.
func (k socketKeys) Change(ctx context.Context, which string, c hearth.KeyChange) (hearth.Key, error) {
	return k.patch(ctx, changeWire{
		Which: which, Name: c.Name, Disabled: c.Disabled, ExpiresAt: c.ExpiresAt, Owner: c.Owner, Models: c.Models, Providers: c.Providers, LocalOnly: c.LocalOnly, EarlyHeaders: (*int64)(c.EarlyHeaders), Limit: c.Limit,
		LimitReset: c.LimitReset, ExternalLimit: c.ExternalLimit, Currency: c.Currency, NoContent: c.NoContent, Class: c.Class,
		Requests: c.RequestsPerMinute, Tokens: c.TokensPerMinute, Kappa: c.Kappa, NoExplore: c.NoExplore,
	})
}

// Disable has the gateway disable a key.
func (k socketKeys) Disable(ctx context.Context, which string) (hearth.Key, error) {
	return k.patch(ctx, changeWire{Which: which, Disable: true})
}

// Retire has the gateway delete a key.
func (k socketKeys) Retire(ctx context.Context, which string) (hearth.Key, error) {
	return k.patch(ctx, changeWire{Which: which, Delete: true})
}

func (k socketKeys) patch(ctx context.Context, c changeWire) (hearth.Key, error) {
	var w keyWire
	err := k.ask(ctx, http.MethodPatch, c, &w)
	return w.key(), err
}
