package dialect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"myip.co.kr/hearth"
)

// partsBody is a request with one message made of the parts.
func partsBody(parts string) []byte {
	return []byte(`{"messages":[{"role":"user","content":[` + parts + `]}]}`)
}

func TestDecodeChat_media(t *testing.T) {
	const data = "data:image/png;base64,QUJD"
	for _, tt := range []struct {
		name, parts string
		kinds       []string
		images      int
		urls        []string
	}{
		{"text", `{"type":"text","text":"see http://x/y"}`, nil, 0, nil},
		{"an image as data", `{"type":"image_url","image_url":{"url":"` + data + `"}}`, []string{"image"}, 1, nil},
		{"an image by address", `{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}`, []string{"image"}, 1, []string{"https://x/y.png"}},
		{"an image by a bare address", `{"image_url":"HTTP://X/y.png","type":"input_image"}`, []string{"image"}, 1, []string{"HTTP://X/y.png"}},
		{"an address with escapes", `{"type":"image_url","image_url":{"\u0075rl":"\u0068ttp:\/\/x\/\u00e9"}}`, []string{"image"}, 1, []string{"http://x/é"}},
		{"an address all by escape", `{"type":"image_url","image_url":"` + escaped("https://x") + `"}`, []string{"image"}, 1, []string{"https://x"}},
		{"without a type", `{"image_url":{"url":"http://x"}}`, []string{"image"}, 1, []string{"http://x"}},
		{"a type that lies", `{"type":"text","text":"x","image_url":{"url":"http://x"}}`, []string{"image"}, 1, []string{"http://x"}},
		{"a key in capitals", `{"type":"image_url","Image_URL":{"URL":"http://x"}}`, []string{"image"}, 1, []string{"http://x"}},
		{"keys that stand twice", `{"type":"image_url","image_url":{"url":"` + data + `","url":"http://a"},"image_url":"http://b"}`, []string{"image"}, 1, []string{"http://a", "http://b"}},
		{"the same address twice", `{"type":"image_url","image_url":{"url":"http://x"}},{"type":"image_url","image_url":{"url":"http:\/\/x"}}`, []string{"image"}, 2, []string{"http://x"}},
		{"a form of somebody else", `{"type":"image","source":{"type":"url","url":"https://x"}}`, []string{"image"}, 1, []string{"https://x"}},
		{"an address in a list", `{"type":"video","video":["https://a","https://b"]}`, []string{"video"}, 0, []string{"https://a", "https://b"}},
		{"sound as data", `{"type":"input_audio","input_audio":{"data":"QUJD","format":"wav"}}`, []string{"audio"}, 0, nil},
		{"sound by address", `{"type":"input_audio","input_audio":{"data":"https://x/y.wav","format":"wav"}}`, []string{"audio"}, 0, []string{"https://x/y.wav"}},
		{"a film", `{"type":"video_url","video_url":{"url":"https://x/y.mp4"}}`, []string{"video"}, 0, []string{"https://x/y.mp4"}},
		{"a film in the old form", `{"type":"input_video","video_url":{"url":"data:video/mp4;base64,AA"}}`, []string{"video"}, 0, nil},
		{"a file as data", `{"type":"file","file":{"filename":"file://b.pdf","file_data":"data:application/pdf;base64,AA"}}`, []string{"file"}, 0, nil},
		{"a file by address", `{"type":"file","file":{"file_data":"https://x/y.pdf"}}`, []string{"file"}, 0, []string{"https://x/y.pdf"}},
		{"a file by its id", `{"type":"file","file":{"file_id":"file-1"}}`, []string{"file"}, 0, nil},
		{"everything", `{"type":"file","file":{}},{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"` + data + `"}},{"type":"input_audio","input_audio":{}},{"type":"video_url"}`, []string{"image", "audio", "video", "file"}, 1, nil},
		{"padded words", `{"type":"text","text":"x","foo":"` + strings.Repeat(" ", 99) + `at http://x","bar":"\u0021http://x"}`, nil, 0, nil},
		{"words with a colon", `{"type":"text","text":"x","cache_control":{"type":"a://b"},"foo":"urn:x"}`, nil, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := DecodeChat(partsBody(tt.parts), bytesCount)
			if err != nil {
				t.Fatal(err)
			}
			got := []any{c.Media, c.Images, c.MediaURLs()}
			if d := cmp.Diff([]any{tt.kinds, tt.images, tt.urls}, got, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			if c.Request.MediaURLs < len(tt.urls) || len(tt.urls) == 0 && c.Request.MediaURLs != 0 {
				t.Errorf("%d parts with an address", c.Request.MediaURLs)
			}
		})
	}
	t.Run("images of an answer", func(t *testing.T) {
		c, err := DecodeChat([]byte(`{"messages":[{"role":"assistant","content":"x","images":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}`), bytesCount)
		if err != nil || c.Images != 1 || len(c.MediaURLs()) != 1 {
			t.Errorf("%v, %+v", err, c)
		}
	})
	t.Run("64 addresses, one of them often", func(t *testing.T) {
		c, err := DecodeChat(partsBody(addresses(64, 900)), bytesCount)
		if err != nil || len(c.MediaURLs()) != 64 || c.Request.MediaURLs != 964 {
			t.Errorf("%v", err)
		}
	})
}

// escaped spells every character of an ASCII text as an escape.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// addresses are image parts with n different addresses, then more with the last of them again.
func addresses(n, more int) string {
	var b strings.Builder
	for i := range n + more {
		fmt.Fprintf(&b, `{"image_url":"http://x/%d"},`, min(i, n-1))
	}
	return strings.TrimSuffix(b.String(), ",")
}

func TestDecodeChat_mediaRefused(t *testing.T) {
	image := func(url string) string {
		return `{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"` + url + `"}}`
	}
	const at = "messages[0].content[1].image_url.url"
	for _, tt := range []struct{ name, parts, param, says string }{
		{"a file of the machine", image("file:///etc/passwd"), at, "http or https address or a data URL"},
		{"a file in capitals", image("FILE:/etc/passwd"), at, "http or https"},
		{"a file by escape", image(`\u0066ile:\/\/\/etc\/passwd`), at, "http or https"},
		{"a path", image("/etc/passwd"), at, "http or https"},
		{"a path that ends like a picture", image("/root/x.png"), at, "http or https"},
		{"a path from here", image("../x.png"), at, "http or https"},
		{"a bucket", image("gs://bucket/x"), at, "http or https"},
		{"a name that is no scheme", image("localhost:8080/x"), at, "http or https"},
		{"no slashes", image("http:x"), at, "http or https"},
		{"one slash", image("https:/x"), at, "http or https"},
		{"white space in front", image(" http://x"), at, "http or https"},
		{"a control character in front", image(`\u0000http://x`), at, "http or https"},
		{"no scheme", image("//x/y.png"), at, "http or https"},
		{"empty", image(""), at, "http or https"},
		{"a bare address", `{"type":"image_url","image_url":"ftp://x"}`, "messages[0].content[0].image_url", "http or https"},
		{"a film", `{"type":"video_url","video_url":{"url":"rtsp://x"}}`, "messages[0].content[0].video_url.url", "http or https"},
		{"sound", `{"type":"input_audio","input_audio":{"data":"file:///x","format":"wav"}}`, "messages[0].content[0].input_audio.data", "http or https"},
		{"a file", `{"type":"file","file":{"file_data":"smb://x"}}`, "messages[0].content[0].file.file_data", "http or https"},
		{"a form of somebody else", `{"type":"image","image":"file:///x"}`, "messages[0].content[0].image", "http or https"},
		{"an unknown key", `{"type":"text","text":"","x":{"y":["s3://x"]}}`, "messages[0].content[0].x.y", "http or https"},
		{"padded in an unknown key", `{"type":"text","text":"","x":"\nhttp://x"}`, "messages[0].content[0].x", "http or https"},
		{"a file in an unknown key", `{"type":"text","text":"","x":"file:/x"}`, "messages[0].content[0].x", "http or https"},
		{"all by escape in an unknown key", `{"type":"text","text":"","x":"` + escaped("gopher://x") + `"}`, "messages[0].content[0].x", "http or https"},
		{"padded at length", `{"type":"text","text":"","x":"` + strings.Repeat(` \t\u001F\u0020`, 99) + `http://x"}`, "messages[0].content[0].x", "http or https"},
		{"65 addresses", addresses(65, 0), "messages[0].content[64].image_url", "more than 64 different"},
		{"one address too often", addresses(1, 1024), "messages[0].content[1024].image_url", "more than 1024"},
		{"a long address", image("http://x/" + strings.Repeat("y", 9000)), at, "longer than 8192"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeChat(partsBody(tt.parts), bytesCount)
			e, ok := errors.AsType[*hearth.Error](err)
			if !ok || e.Type != hearth.ErrInvalidRequest || e.Param != tt.param || !strings.Contains(e.Message, tt.says) {
				t.Errorf("%v", err)
			}
			if ok && strings.Contains(e.Message, "passwd") {
				t.Errorf("content in %q", e.Message)
			}
		})
	}
}

func TestDecodeChat_mediaEstimate(t *testing.T) {
	big := strings.Repeat("QUJD", 50_000) // 150,000 bytes of data
	estimate := func(t *testing.T, body []byte) int {
		t.Helper()
		c, err := DecodeChat(body, bytesCount)
		if err != nil {
			t.Fatal(err)
		}
		if c.Bytes != c.Estimate { // bytesCount counts a token for a byte
			t.Errorf("%d bytes, %d tokens", c.Bytes, c.Estimate)
		}
		return c.Estimate
	}
	base := estimate(t, partsBody(""))
	for _, tt := range []struct {
		name, parts string
		from, to    int // tokens beyond those of the empty list
	}{
		{"an image", `{"type":"image_url","image_url":{"detail":"low","url":"data:image/png;base64,` + big + `"}}`, 0, 200},
		{"an image with escapes", `{"type":"input_image","image_url":"data:image\/png;base64,` + big + `"}`, 0, 200},
		{"a film", `{"type":"video_url","video_url":{"url":"data:video/mp4;base64,` + big + `"}}`, 4096, 4300},
		{"a film by address", `{"type":"video_url","video_url":{"url":"https://x"}}`, 4096, 4300},
		{"a file", `{"type":"file","file":{"file_data":"data:application/pdf;base64,` + big + `"}}`, 4096, 4300},
		{"a file in bare base64", `{"type":"file","file":{"file_data":"` + big + `"}}`, 4096, 4300},
		{"sound, plain: 9.4 s", `{"type":"input_audio","input_audio":{"format":"wav","data":"` + big + `"}}`, 300, 500},
		{"sound, packed: 75 s", `{"type":"input_audio","input_audio":{"format":"mp3","data":"` + big + `"}}`, 2400, 2600},
		{"sound as a data URL", `{"type":"audio_url","audio_url":{"url":"data:audio/mpeg;base64,` + big + `"}}`, 2400, 2600},
		{"sound by address", `{"type":"input_audio","input_audio":{"data":"https://x"}}`, 4096, 4300},
		{"text that looks like data", `{"type":"text","text":"data:image/png;base64,` + big + `"}`, 200_000, 200_200},
		{"thoughts that look like data", `{"type":"thinking","thinking":"data:image/png;base64,` + big + `"}`, 200_000, 200_200},
		{"data that is not base64", `{"type":"image_url","image_url":{"url":"data:image/svg,` + big + `"}}`, 200_000, 200_200},
		{"data elsewhere", `{"type":"x","x":"` + big + `"}`, 200_000, 200_200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if n := estimate(t, partsBody(tt.parts)) - base; n < tt.from || n > tt.to {
				t.Errorf("%d tokens", n)
			}
		})
	}
	for key, counted := range map[string]bool{"content": true, "reasoning": true, "name": true, "annotations": false} {
		t.Run(key+" of a message", func(t *testing.T) {
			n := estimate(t, []byte(`{"messages":[{"role":"user","`+key+`":"data:;base64,`+big+`"}]}`)) - base
			if (n > 200_000) != counted {
				t.Errorf("%d tokens", n)
			}
		})
	}
}
