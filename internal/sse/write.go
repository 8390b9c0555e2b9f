package sse

import "bytes"

// AppendData appends one event that carries json. A line break in it, which JSON allows between values only,
// becomes a space: many clients read no more than one data line.
func AppendData(dst, json []byte) []byte {
	dst = append(dst, "data: "...)
	dst = appendLine(dst, json)
	return append(dst, "\n\n"...)
}

// AppendComment appends a comment, which every client ignores. Line breaks become spaces.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = appendLine(dst, text)
	return append(dst, "\n\n"...)
}

// Flatten makes one line of json: line breaks in it, which JSON allows between values only, become spaces.
func Flatten(json []byte) {
	for _, c := range [...]byte{'\n', '\r'} {
		for rest := json; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

func appendLine[T []byte | string](dst []byte, text T) []byte {
	n := len(dst)
	dst = append(dst, text...)
	for i, c := range dst[n:] {
		if c == '\n' || c == '\r' {
			dst[n+i] = ' '
		}
	}
	return dst
}
