package media

import (
	"strings"
	"testing"
)

func TestMediaType(t *testing.T) {
	const mp4, avif = "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1"
	for name, tc := range map[string]struct{ header, head, want string }{
		"png":                        {"image/png", png, "image/png"},
		"capitals and parameters":    {"IMAGE/PNG; q=1", png, "image/png"},
		"a wrong kind of image":      {"image/png", jpeg, "image/jpeg"},
		"no type":                    {"", jpeg, "image/jpeg"},
		"a broken type":              {"image/", jpeg, "image/jpeg"},
		"any bytes":                  {"application/octet-stream", jpeg, "image/jpeg"},
		"any bytes, of a bucket":     {"binary/octet-stream", mp4, "video/mp4"},
		"avif":                       {"image/avif", avif, "image/avif"},
		"heic":                       {"", strings.Replace(avif, "ftypavif", "ftypheic", 1), "image/heic"},
		"tiff":                       {"image/tiff", "II*\x00and then", "image/tiff"},
		"wave":                       {"audio/x-wav", wav, "audio/x-wav"},
		"wave without a type":        {"", wav, "audio/wave"},
		"ogg":                        {"application/ogg", "OggS\x00and then", "audio/ogg"},
		"ogg with sound":             {"audio/ogg", "OggS\x00and then", "audio/ogg"},
		"mp3 without looks":          {"audio/mpeg", "\xff\xfb\x90\x64\x00\x00\x00", "audio/mpeg"},
		"film":                       {"video/mp4", mp4, "video/mp4"},
		"page":                       {"text/html", "<html>", ""},
		"page as an image":           {"image/png", "<html>", ""},
		"page as sound":              {"audio/mpeg", "<!DOCTYPE html><html>", ""},
		"text as a film":             {"video/mp4", "root:x:0:0", ""},
		"image as sound":             {"audio/mpeg", png, ""},
		"drawing with scripts":       {"image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'>", ""},
		"pdf":                        {"application/pdf", "%PDF-1.7", ""},
		"pdf as an image":            {"image/jpeg", "%PDF-1.7", ""},
		"any bytes, of nothing":      {"application/octet-stream", "\x00\x01\x02", ""},
		"an image nobody recognises": {"image/x-new", "\x00\x01\x02", ""},
		"a type that breaks out":     {"audio/x\",\"y", wav, "audio/wave"},
		"a type with odd letters":    {"audio/x'!#$", wav, ""},
		"a type without end":         {"audio/" + strings.Repeat("x", 100), wav, ""},
		"an image on a page":         {"text/html", png, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mediaType(tc.header, []byte(tc.head)); got != tc.want {
				t.Errorf("%q of %q, want %q", got, tc.header, tc.want)
			}
		})
	}
}

// FuzzMediaType: whatever a server says and sends, the type can stand in a body without any care.
func FuzzMediaType(f *testing.F) {
	f.Add("image/png", []byte(png))
	f.Add("audio/x\",\"y", []byte(wav))
	f.Fuzz(func(t *testing.T, header string, head []byte) {
		if got := mediaType(header, head); got != "" && !plainType.MatchString(got) {
			t.Errorf("type %q", got)
		}
	})
}
