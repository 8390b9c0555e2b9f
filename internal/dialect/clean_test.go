package dialect

import "testing"

// TestClean: what must not leave the house does not, and the rest of the sentence does.
func TestClean(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"one line", "a\r\n\tb\x00c\u2028d", "a b c d"},
		{"an address in the query of another", "see https://api.x.com/?next=http://10.0.0.5/admin now", "see [address] now"},
		{"two addresses in one word", "http://a.com,http://10.0.0.1:8080/x", "http://a.com,[address]"},
		{"an address of others with a query", "https://a.com/x?y=1&z=2, ok", "https://a.com/x?y=1&z=2, ok"},
		{"an address in JSON", `{"url":"http://gpu-7:80/v1","n":1}`, `{"url":"[address]","n":1}`},
		{"a dial that failed", "dial tcp 10.0.0.5:8080: connect: connection refused", "dial tcp [address]: connect: connection refused"},
		{"a dial that failed, IPv6", "dial tcp [fd00::1]:8080: refused", "dial tcp [address]: refused"},
		{"a name that was not found", "lookup engine.internal on 10.0.0.2:53: no such host", "lookup [address] on [address]: no such host"},
		{"an overlay network", "http://100.64.3.4:8000/v1", "[address]"},
		{"an IPv4 address in an IPv6 one", "http://[::ffff:10.0.0.1]/", "[address]"},
		{"link-local", "http://169.254.169.254/latest.", "[address]"},
		{"a user at a machine", "root@10.0.0.5:22", "[address]"},
		{"this machine", "localhost:8080 and 127.0.0.1, host=::1", "[address] and [address], host=[address]"},
		{"a dot behind the host", "http://engine.internal.:80/ at engine.svc.cluster.local.", "[address] at [address]."},
		{"the names of houses", "http://a.localdomain/ http://b.corp/ http://c.home.arpa/ d.lan:99", "[address] [address] [address] [address]"},
		{"a password in an address", "redis://user:pass@redis.example.com:6379/0", "[address]"},
		{"a file", "file:///etc/passwd", "[address]"},
		{"public addresses stay", "8.8.8.8 and https://a.example.com/docs#x and example.com:443", "8.8.8.8 and https://a.example.com/docs#x and example.com:443"},
		{"what looks like one stays", "gpt-4.1: 3.5 of 10.5, v1.2.3, a.b: c, e.g. this.", "gpt-4.1: 3.5 of 10.5, v1.2.3, a.b: c, e.g. this."},
		{"two keys in one word", "sk-aaaaaaaaaaaaaaaaaaaaaa,sk-bbbbbbbbbbbbbbbbbbbbbb", "[redacted],[redacted]"},
		{"a key in base64", "xai-aaaaaaaaaaaaaaaa/bbb+ccc== is wrong", "[redacted] is wrong"},
		{"a key with stars", "key provided: sk-pro********************abcd. Find it", "key provided: [redacted] Find it"},
		{"what begins like a key stays", "sk-4 sk-learn risk-averse hf_hub", "sk-4 sk-learn risk-averse hf_hub"},
		{"an id is no key", "task-0123456789abcdef0123 chatcmpl-abceyJhbGciOiJIUzI1NiJ9", "task-0123456789abcdef0123 chatcmpl-abceyJhbGciOiJIUzI1NiJ9"},
		{"a token of a header", "Authorization: Bearer abcdefghijk", "Authorization: Bearer [redacted]"},
		{"a token of a header in JSON", `{"Authorization":"Bearer abcdefghijklmnop12345","a":1}`, `{"Authorization":"Bearer [redacted]","a":1}`},
		{"a bearer without a token stays", `"Bearer","x" and bearer token`, `"Bearer","x" and bearer token`},
		{"a token that is a JWT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefg", "[redacted]"},
		{"a named key", "api_key=abcdefabcdef0123&x=1", "api_key=[redacted]&x=1"},
		{"a named key in JSON", `{"apiKey": "0123456789abcdef", "password":"hunter22222"}`, `{"apiKey": "[redacted]", "password":"[redacted]"}`},
		{"a word about a key stays", "api key: required, secret: missing-header", "api key: required, secret: missing-header"},
		{"a path of the machine", `cannot open "/home/op/models/x.gguf": no such file (/srv/a)`, `cannot open "[path]": no such file ([path])`},
		{"a path of an API stays", "POST /v1/chat/completions and /models/x/home/y", "POST /v1/chat/completions and /models/x/home/y"},
		{"Hangul", "모델이 없습니다: http://10.0.0.1/v1 에서", "모델이 없습니다: [address] 에서"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := clean(tt.in, 1000); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}
