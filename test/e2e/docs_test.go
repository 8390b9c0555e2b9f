package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const examples = "../../docs/examples"

// TestExamples asks hearth check about every example, and holds docs/engines.md to them.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %v, %v", files, err)
	}
	page, err := os.ReadFile("../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		shown[block[1]] = true
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			cmd := exec.Command(program, "check", f)
			cmd.Env = append(os.Environ(), "OPENROUTER_API_KEY=sk-or-test", "VLLM_API_KEY=sk-vllm-test", "GPU_2_TOKEN=0123456789abcdef0123")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "is good") {
				t.Errorf("%v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(line, "warning:") && !strings.Contains(line, ": providers: is empty") && !strings.Contains(line, ": nodes: is empty") {
					t.Error(line)
				}
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(f) == "openrouter.yaml" { // no engine
				return
			}
			if !shown[string(text)] {
				t.Error("docs/engines.md does not show it as it is")
			}
			delete(shown, string(text))
		})
	}
	for text := range shown {
		t.Errorf("docs/engines.md shows what is no example:\n%s", text)
	}
	for _, link := range regexp.MustCompile(`\]\((examples/[^)]*)\)`).FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat("../../docs/" + link[1]); err != nil {
			t.Error(err)
		}
	}
}

// TestExampleOfLlamaServer runs that example as it stands, but for the place of the model file.
func TestExampleOfLlamaServer(t *testing.T) {
	t.Parallel()
	e := installed()
	if e.err != nil {
		t.Fatal(e.err)
	}
	if e.lacking != "" {
		t.Skip(e.lacking)
	}
	dir := t.TempDir()
	model := filepath.Join(dir, "gemma.gguf")
	if out, err := exec.Command(e.generator, "-o", model, "-name", "tiny-gemma", "-ctx", "65536").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	script := "#!/bin/sh\nexec " + e.server + " --lib " + e.lib + ` "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "llama-server"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(examples + "/llama-server.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const file = "/srv/models/gemma-3-12b-it-Q4_K_M.gguf"
	if !strings.Contains(string(text), file) {
		t.Fatalf("no %s in\n%s", file, text)
	}
	g := launch(t, func(string) string { return strings.Replace(string(text), file, model, 1) + "\ndata_dir: data\n" },
		"PATH="+dir+":"+os.Getenv("PATH"))
	r := g.chat(`{"messages": [{"role": "user", "content": "hi"}]}`)
	if r.status != 200 || r.header.Get("X-Myip-Model") != "google/gemma-3-12b" || !strings.Contains(r.body, "I am tiny-gemma") {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}

// TestExampleOfSecondMachine runs both files and the commands beside them as they stand, but for the addresses and for vLLM.
func TestExampleOfSecondMachine(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs openssl, whose command the page shows")
	}
	page, err := os.ReadFile("../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	certificate := regexp.MustCompile(`(?s)openssl req .*?gpu-2\.pem`).FindString(string(page))
	token := "GPU_2_TOKEN=" + nodeToken
	m := &machine{t: t, dir: t.TempDir(), env: []string{token}}
	make := exec.Command("sh", "-c", strings.ReplaceAll(certificate, "DNS:gpu-2.lan", "IP:127.0.0.1"))
	make.Dir = m.dir
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", certificate, err, out)
	}
	address := freeAddress(t)
	const model = "lgai/exaone-4.0-32b"
	vllm := regexp.MustCompile(`(?s)command: \[vllm.*?\]`)
	there, err := os.ReadFile(examples + "/second-machine-node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := vllm.ReplaceAllLiteralString(string(there), "command: "+engineLine(t, model, nil))
	text = strings.Replace(text, `listen: ":8801"`, "listen: "+address, 1) + "\ndata_dir: data\n"
	if err := os.WriteFile(m.path("node.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run()
	here, err := os.ReadFile(examples + "/second-machine.yaml")
	if err != nil {
		t.Fatal(err)
	}
	g := launch(t, func(string) string {
		return strings.NewReplacer("https://gpu-2.lan:8801", "https://"+address, "gpu-2.pem", m.path("gpu-2.pem")).Replace(string(here)) + "\ndata_dir: data\n"
	}, token)
	g.until("the machine is known", func() bool { return g.status(model) == -2 })
	r := g.chat(`{"model": "` + model + `", "messages": [{"role": "user", "content": "hi"}]}`)
	if r.status != 200 || r.header.Get("X-Myip-Model") != model || !strings.Contains(r.body, "I am "+model) {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}
