package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"myip.co.kr/hearth"
)

// maxSecretFile bounds a file that holds one key.
const maxSecretFile = 64 << 10

// Load reads a configuration file and the secret files it names. A nil getenv is os.LookupEnv. If the file can be
// read but not used, the error is a Problems with everything that is wrong.
func Load(path string, getenv func(string) (string, bool)) (*Config, error) {
	if getenv == nil {
		getenv = os.LookupEnv
	}
	data, err := readBounded(path, maxFile+1)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data, getenv, func(name string) ([]byte, error) { return readBounded(name, maxSecretFile+1) })
}

// DataDir is where a file that Load refuses says that the data is, for commands that speak to a gateway which goes on with
// the file as it was before. Of the file only the line of data_dir must be right. ok is false if it cannot be told.
func DataDir(path string, getenv func(string) (string, bool)) (dir string, ok bool) {
	if getenv == nil {
		getenv = os.LookupEnv
	}
	data, err := readBounded(path, maxFile)
	if err != nil {
		return "", false
	}
	c := Default()
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "data_dir:") {
			continue
		}
		root, problem := parseYAML([]byte(line))
		if problem != nil {
			return "", false
		}
		d := newDecoder(path, getenv)
		d.value("", root, reflect.ValueOf(c).Elem(), fieldRules{})
		if d.err() != nil || c.DataDir == "" {
			return "", false
		}
	}
	c.locate(filepath.Dir(path))
	return c.DataDir, true
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// Parse reads a configuration. name is the file's path: it stands in problems, and relative paths in the file
// start at its directory. getenv answers for ${env:NAME}, readFile for the *_file keys; without them no
// variable is set and no file can be read. The error is a Problems with everything that is wrong, in file order.
func Parse(name string, data []byte, getenv func(string) (string, bool), readFile func(string) ([]byte, error)) (*Config, error) {
	if getenv == nil {
		getenv = func(string) (string, bool) { return "", false }
	}
	root, problem := parseYAML(data)
	if problem != nil {
		problem.File = name
		return nil, Problems{*problem}
	}
	d := newDecoder(name, getenv)
	findTargets(root, map[string]ast.Node{}, d.targets)
	c := Default()
	d.value("", root, reflect.ValueOf(c).Elem(), fieldRules{})
	c.origin = d.origin
	d.secretFiles(c, readFile)
	c.files = d.files
	c.locate(filepath.Dir(name))
	k := &checker{report: &d.report, c: c}
	k.check()
	if err := d.err(); err != nil {
		return nil, err
	}
	return c, nil
}

func newDecoder(name string, getenv func(string) (string, bool)) *decoder {
	return &decoder{getenv: getenv, targets: map[*ast.AliasNode]ast.Node{}, report: report{
		bad:    map[string]bool{},
		origin: origin{file: name, places: map[string]place{}, literal: map[string]bool{}},
	}}
}

// findTargets finds what each alias stands for: the last anchor of its name before it.
func findTargets(n ast.Node, anchors map[string]ast.Node, targets map[*ast.AliasNode]ast.Node) {
	switch x := n.(type) {
	case *ast.MappingNode:
		for _, v := range x.Values {
			findTargets(v.Value, anchors, targets)
		}
	case *ast.MappingValueNode:
		findTargets(x.Value, anchors, targets)
	case *ast.SequenceNode:
		for _, v := range x.Values {
			findTargets(v, anchors, targets)
		}
	case *ast.AnchorNode:
		if x.Name != nil && x.Name.GetToken() != nil {
			anchors[x.Name.GetToken().Value] = x.Value
		}
		findTargets(x.Value, anchors, targets)
	case *ast.TagNode:
		findTargets(x.Value, anchors, targets)
	case *ast.AliasNode:
		if x.Value == nil || x.Value.GetToken() == nil {
			return
		}
		if t, ok := anchors[x.Value.GetToken().Value]; ok {
			targets[x] = t
		}
	}
}

// locate makes the paths of the file start at its directory.
func (c *Config) locate(dir string) {
	from := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	c.DataDir, c.Local.LockDir = from(c.DataDir), from(c.Local.LockDir)
	if n := c.NodeServer; n != nil {
		n.TLSCert, n.TLSKey = from(n.TLSCert), from(n.TLSKey)
	}
	for i := range c.Nodes {
		c.Nodes[i].CA = from(c.Nodes[i].CA)
		for j := range c.Nodes[i].Slots {
			s := &c.Nodes[i].Slots[j]
			s.Dir = from(s.Dir)
		}
	}
}

// secretFiles reads the keys that stand in files of their own.
func (d *decoder) secretFiles(c *Config, readFile func(string) ([]byte, error)) {
	dir := filepath.Dir(c.origin.file)
	if n := c.NodeServer; n != nil {
		d.secretFile("node_server", "token", dir, n.TokenFile, &n.Token, readFile)
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		d.secretFile(at("nodes", i), "token", dir, n.TokenFile, &n.Token, readFile)
		for j := range n.Slots {
			s := &n.Slots[j]
			d.secretFile(at(at("nodes", i)+".slots", j), "api_key", dir, s.APIKeyFile, &s.APIKey, readFile)
		}
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		d.secretFile(at("providers", i), "api_key", dir, p.APIKeyFile, &p.APIKey, readFile)
	}
}

// secretFile reads the secret key of what stands at path. What the file system says against it may be told: it names the path and nothing else.
func (d *decoder) secretFile(path, key, dir, name string, into *hearth.Secret, readFile func(string) ([]byte, error)) {
	if name == "" {
		return
	}
	here := path + "." + key + "_file"
	if d.given(path + "." + key) {
		d.add(here, "stands beside "+key, "keep one of the two")
		return
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	d.files = append(d.files, name)
	if readFile == nil {
		d.add(here, "cannot be read here", "give the key in "+key)
		return
	}
	data, err := readFile(name)
	text := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		d.add(here, "cannot be read: "+reason(err), "check the path and who may read it")
	case len(data) > maxSecretFile:
		d.add(here, "names a file larger than 64 KiB", "the file must hold the key and nothing else")
	case text == "":
		d.add(here, "names an empty file", "put the key into it")
	default:
		*into = hearth.Secret(text)
	}
}
