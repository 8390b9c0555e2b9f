package faults

import (
	"strings"
	"testing"
	"time"
)

// short limits for rows that run into one.
const short = "connect: 300ms, first_byte: 250ms, answer: 250ms, idle: 250ms"

var longWord = strings.Repeat("0123456789abcdef", 1<<12) // 64 KiB

const jsonHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

var connections = []row{
	{name: "connection refused", url: "http://127.0.0.1:1", blame: counted, status: "null", says: "refused"},
	{name: "a name that does not resolve", url: "http://primary.invalid", blame: counted, status: "null", says: "does not resolve"},
	{name: "TLS answered with something else", both: wellWhole, wrap: garbageTLS, blame: counted, status: "null", says: "TLS"},
	{name: "a certificate nobody signed", both: wellWhole, wrap: unknownTLS, blame: counted, status: "null", says: "TLS"},
	{name: "a TLS handshake that is never answered", both: wellWhole, wrap: silentTLS, limits: short, blame: counted, status: "null"},
	{name: "TLS on a port without", both: script{say("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), hangUp}, status: "400"},
	{name: "reset when the connection is made", both: script{nil, reset}, blame: counted, status: "null"},
	{name: "closed when the connection is made", both: script{nil, hangUp}, blame: counted, status: "null"},
	{name: "reset when the request was read", both: script{reset}, blame: counted, status: "null"},
	{name: "closed when the request was read", both: script{hangUp}, blame: counted, status: "null"},
	{name: "reset within the headers", both: script{say("HTTP/1.1 200 OK\r\nContent-Ty"), wait(10 * time.Millisecond), reset}, blame: counted, status: "null"},
	{name: "accepts and never answers", both: script{stall}, limits: short, blame: counted, status: "null"},
	{name: "headers one byte at a time", both: script{dribble("HTTP/1.1 200 OK\r\nX-Slow: "+strings.Repeat("a", 10_000), 5*time.Millisecond)}, limits: short, blame: counted, status: "null"},
	{name: "headers that never end", both: script{say("HTTP/1.1 200 OK\r\n"), repeat("X-Filler: "+longWord[:1000]+"\r\n", 0)}, blame: counted, status: "null"},
	{name: "a header of 10 MB", heavy: true, both: script{tell(func() string {
		return "HTTP/1.1 200 OK\r\nX-Big: " + strings.Repeat("b", 10_000_000) + "\r\nContent-Length: 2\r\n\r\n{}"
	})}, blame: counted, status: "null"},
	{name: "a status line that never ends", both: script{say("HTTP/1.1 200 "), repeat(longWord, 0)}, blame: counted, status: "null"},
	{name: "early hints for ever", both: script{repeat("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n", time.Millisecond)}, limits: short, blame: counted, status: "null"},
	{name: "not HTTP", both: script{say("220 mail.example ESMTP\r\n\r\n"), hangUp}, blame: counted, status: "null"},
	{name: "a status that is no number", both: script{say("HTTP/1.1 two-hundred OK\r\n\r\n"), hangUp}, blame: counted, status: "null"},
	{name: "a header line without a colon", both: script{say("HTTP/1.1 200 OK\r\nthis is no header\r\n\r\n"), hangUp}, blame: counted, status: "null"},
	{name: "two lengths", both: script{say(jsonHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), hangUp}, blame: counted, status: "null"},
	{name: "a negative length", both: script{say(jsonHead + "Content-Length: -1\r\n\r\n{}"), hangUp}, blame: counted, status: "null"},
	{name: "an unknown transfer encoding", both: script{say(jsonHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), hangUp}, blame: counted, status: "null"},
	{
		name: "headers, then silence", limits: "first_byte: 2s, answer: 3s", blame: counted, differ: true, body: broken,
		stream: script{say(sseHead), stall}, whole: script{say(jsonHead + "Content-Length: 100\r\n\r\n"), stall},
	},
	{name: "a role, then silence", stream: script{say(sseHead + parts(roleEvent)), stall}, limits: short, blame: counted},
	{name: "comments, but no first token", stream: script{say(sseHead), repeat(part(": still here\n\n"), 10*time.Millisecond)}, limits: short, blame: counted},
	{
		name: "an interim answer before the answer", want: byPrimary,
		stream: script{say("HTTP/1.1 100 Continue\r\n\r\n"), say(begun(20) + rest(20))},
		whole:  script{say("HTTP/1.1 103 Early Hints\r\n\r\n"), say(reply("200 OK", whole(twenty)))},
	},
}

func TestConnections(t *testing.T) { t.Parallel(); run(t, connections) }

// An upstream may end a connection that was kept for the next request at any moment; that is nobody's fault.
func TestKeptConnectionClosed(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]act{"closed": hangUp, "reset": reset} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Every other request meets a connection that ends under it.
			s := &scene{backup: serve(t, well(backupText))}
			s.primary = serve(t, func(l *link) bool {
				if l.asked() > 1 {
					return end(l)
				}
				return well(twenty)(l)
			})
			s.gateway = start(t, setup{primary: s.primary.url(), backup: s.backup.url()})
			for range 6 {
				a := s.chat(t, question(""))
				if got := a.read(); got.provider != "Primary" || got.text != twenty {
					t.Errorf("got %q from %s", got.text, got.provider)
				}
				if w := s.record(t, a).words(); len(w) != 1 || w[0] != "200" {
					t.Errorf("provider_responses %v", w)
				}
			}
		})
	}
}
