package media

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
)

// sniffed is how many bytes of a file its kind is judged by: what http.DetectContentType looks at.
const sniffed = 512

// plainType is a type that can stand in a data URL without any care.
var plainType = regexp.MustCompile(`^(image|audio|video)/[a-z0-9][a-z0-9.+-]{0,60}$`)

// judge compares what a file is said to be with what it looks like. What nobody said anything useful of counts as what it
// looks like. Images must look like images, and then their looks win; much sound and film has no looks, but it must not
// look like something else.
func judge(claimed string, head []byte) string {
	looks, _, _ := strings.Cut(http.DetectContentType(head), ";")
	if looks == "application/ogg" {
		looks = "audio/ogg"
	}
	if more := modernImage(head); more != "" {
		looks = more
	}
	switch {
	case claimed == "" || claimed == "application/octet-stream" || claimed == "binary/octet-stream":
		claimed = looks
	case claimed == "application/ogg":
		claimed = "audio/ogg"
	}
	if !plainType.MatchString(claimed) {
		return ""
	}
	kind, _, _ := strings.Cut(claimed, "/")
	family, _, _ := strings.Cut(looks, "/")
	switch {
	case kind == "image" && family == "image":
		return looks
	case kind == "image":
		return ""
	case family == "audio" || family == "video" || looks == "application/octet-stream":
		return claimed
	}
	return ""
}

// modernImage knows the images that http.DetectContentType does not: AVIF, HEIC and TIFF.
func modernImage(head []byte) string {
	if bytes.HasPrefix(head, []byte("II*\x00")) || bytes.HasPrefix(head, []byte("MM\x00*")) {
		return "image/tiff"
	}
	if len(head) < 12 || string(head[4:8]) != "ftyp" {
		return ""
	}
	switch string(head[8:12]) {
	case "avif", "avis":
		return "image/avif"
	case "heic", "heix", "heim", "heis", "mif1", "msf1":
		return "image/heic"
	}
	return ""
}
