package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// shown is what a command of the text prints.
type shown struct {
	status int
	header http.Header // of commands with -D -
	body   string
}

func (s shown) get(name string) string { return s.header.Get(name) }

// runner runs one command line as a user's shell would.
type runner func(t *testing.T, d *demoRun, line string) shown

// withGo understands the part of the shell's and curl's language that the text uses.
func withGo(t *testing.T, d *demoRun, line string) shown {
	t.Helper()
	line, filter, _ := strings.Cut(line, " | ")
	var url, body string
	header := make(http.Header)
	words := shellWords(t, line, map[string]string{"MYIP_API_KEY": d.key})
	for i := 1; i < len(words); i++ {
		switch w := words[i]; w {
		case "-s", "-N":
		case "-D":
			i++
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-d":
			i++
			body = words[i]
		default:
			url = w
		}
	}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if pattern, ok := strings.CutPrefix(filter, "grep -o "); ok {
		found := regexp.MustCompile(strings.Trim(pattern, "'")).FindAllString(string(b), -1)
		b = []byte(strings.Join(found, "\n") + "\n")
	}
	return shown{resp.StatusCode, resp.Header, string(b)}
}

// shellWords splits a line at spaces and understands both quotes and $NAME.
func shellWords(t *testing.T, line string, vars map[string]string) []string {
	t.Helper()
	var words []string
	var word strings.Builder
	in, quote := false, rune(0)
	for _, c := range line {
		switch {
		case quote == 0 && (c == '\'' || c == '"'):
			quote, in = c, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && c == ' ':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		case quote != '\'' && c == '$':
			in = true
			word.WriteRune('\x00') // names follow; replaced below
		default:
			in = true
			word.WriteRune(c)
		}
	}
	if quote != 0 {
		t.Fatalf("a quote is open in %s", line)
	}
	if in {
		words = append(words, word.String())
	}
	for i := range words {
		for name, value := range vars {
			words[i] = strings.ReplaceAll(words[i], "\x00"+name, value)
		}
		if strings.Contains(words[i], "\x00") {
			t.Fatalf("an unknown variable in %s", line)
		}
	}
	return words
}

// withCurl gives the line to a shell as it stands.
func withCurl(t *testing.T, d *demoRun, line string) shown {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = append(os.Environ(), "MYIP_API_KEY="+d.key, "no_proxy=*")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, &errs)
	}
	s := shown{status: http.StatusOK, body: out.String()}
	if !strings.Contains(line, "-D -") {
		return s
	}
	head, body, ok := strings.Cut(out.String(), "\r\n\r\n")
	if !ok {
		t.Fatalf("%s printed no headers: %s", line, &out)
	}
	first, _, _ := strings.Cut(head, "\r\n")
	if _, err := fmt.Sscanf(first, "HTTP/1.1 %d", &s.status); err != nil {
		t.Fatalf("%s printed %q: %v", line, first, err)
	}
	s.header, s.body = make(http.Header), body
	for _, h := range strings.Split(head, "\r\n")[1:] {
		name, value, _ := strings.Cut(h, ": ")
		s.header.Add(name, value)
	}
	return s
}
