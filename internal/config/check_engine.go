package config

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"myip.co.kr/hearth"
)

// driverKeys are the keys of a slot that only some drivers know.
var driverKeys = []struct {
	key     string
	drivers []string
}{
	{"command", []string{"exec"}},
	{"env", []string{"exec", "command"}},
	{"dir", []string{"exec", "command"}},
	{"port", []string{"exec"}},
	{"url", []string{"always", "command", "http", "docker"}},
	{"trust", []string{"always", "command", "http", "docker"}},
	{"api_key", []string{"always", "command", "http", "docker"}},
	{"api_key_file", []string{"always", "command", "http", "docker"}},
	{"start", []string{"command", "http"}},
	{"stop", []string{"command", "http"}},
	{"status", []string{"command", "http"}},
	{"preset", []string{"http"}},
	{"container", []string{"docker"}},
	{"docker", []string{"docker"}},
	{"on_exit", []string{"exec", "command", "http", "docker"}},
	{"min_free", []string{"exec", "command", "http", "docker"}},
}

// strange reports keys that the slot's driver does not know.
func (k *checker) strange(path string, s *Slot) {
	for _, d := range driverKeys {
		if slices.Contains(d.drivers, s.Driver) || !k.given(path+"."+d.key) {
			continue
		}
		remedy := "remove it"
		switch {
		case s.Driver == "exec" && d.drivers[0] == "always":
			remedy += ", or set driver: always if somebody else runs the engine"
		case s.Driver == "always":
			remedy += ", or remove driver: always if the gateway is to start the engine"
		case s.Driver == "command" && d.key == "command":
			remedy = "write it into start, as start: {command: […]}"
		}
		k.add(path+"."+d.key, "is for slots with driver: "+oneOf(d.drivers), remedy)
	}
}

// oneOf lists words of which one is to be chosen.
func oneOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// engine checks how an engine of this machine, or one that it knows, is started, reached and stopped.
func (k *checker) engine(path string, s *Slot) {
	k.strange(path, s)
	if s.Driver != "exec" {
		k.engineAddress(path, s)
	}
	switch s.Driver {
	case "exec":
		k.execSlot(path, s)
	case "command":
		k.environment(path, s)
		k.actions(path, s)
	case "http":
		k.actions(path, s)
	case "docker":
		k.container(path, s)
	}
}

func (k *checker) execSlot(path string, s *Slot) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		k.add(path+".command", "is missing", "write the program that starts the engine and its arguments, or set driver: always and url")
	}
	k.arguments(path+".command", s.Command)
	k.environment(path, s)
	port := s.Port != 0 || slices.ContainsFunc(s.Command, tellsPort)
	for _, v := range s.Env {
		port = port || tellsPort(v.Reveal())
	}
	if !port {
		k.add(path+".command", "does not tell the engine its port", `add an argument such as "--port", "${port}", or say in port which one it uses`)
	}
	if s.Port != 0 {
		k.port(path+".port", s.Port)
	}
}

func tellsPort(text string) bool { return strings.Contains(text, "${port}") }

func (k *checker) environment(path string, s *Slot) {
	for _, name := range sorted(s.Env) {
		here := join(path+".env", name)
		switch {
		case !envName.MatchString(name):
			k.add(here, "is not the name of an environment variable", "write letters, digits and _")
		case strings.HasPrefix(name, "HEARTH_"):
			k.add(here, "is one of the gateway's own variables", "choose a name that does not begin with HEARTH_")
		case strings.ContainsRune(s.Env[name].Reveal(), 0):
			k.add(here, "holds a zero byte", "write plain text")
		}
	}
}

func (k *checker) port(path string, port int) {
	if first, ok := k.ports[port]; ok {
		k.add(path, "is the port of another slot, on line "+strconv.Itoa(k.line(first)), "give each slot its own, or none: then a free one is found")
		return
	}
	k.ports[port] = path
	if _, listen, ok := hostPort(k.c.Listen); ok && listen == port {
		k.add(path, "is the port the gateway itself listens on", "choose another")
	}
	k.taken(path, port)
}

// engineAddress checks where an engine answers that is no child process.
func (k *checker) engineAddress(path string, s *Slot) {
	k.secret(path+".api_key", s.APIKey)
	here := path + ".url"
	if s.URL == "" {
		k.add(here, "is missing", "write where the engine answers, such as http://127.0.0.1:11434")
		return
	}
	u := k.address(here, s.URL)
	if u == nil {
		return
	}
	if p := strings.TrimSuffix(u.Path, "/"); p == "/v1" || strings.HasSuffix(p, "/v1") {
		k.add(here, "ends with /v1", "leave /v1 out: it is added")
		return
	}
	switch host := u.Hostname(); {
	case isLoopback(host):
		if port, err := strconv.Atoi(u.Port()); err == nil {
			k.taken(here, port)
		}
	case s.Trust != "lan":
		k.add(here, "is not on this machine", "add trust: lan if it is a machine of your own network, else describe it under providers")
	default:
		k.house(here, host)
	}
}

// actions checks what starts, stops and asks an engine.
func (k *checker) actions(path string, s *Slot) {
	if s.Preset != "" && s.Engine != "" && s.Engine != s.Preset {
		k.add(path+".engine", "is another kind of engine than the preset", "remove it: the preset says it")
	}
	for _, a := range []struct {
		key    string
		action *Action
	}{{"start", s.Start}, {"stop", s.Stop}, {"status", s.Status}} {
		here := path + "." + a.key
		switch {
		case a.action == nil && (a.key == "status" || s.Preset != "" || k.bad[path+".preset"]):
		case a.action == nil && s.Driver == "http":
			k.add(here, "is missing", "write a preset, such as preset: ollama, or url of the request as "+a.key+": {url: /…}")
		case a.action == nil:
			k.add(here, "is missing", "write a command, as "+a.key+": {command: […]}; if there is nothing to do, one that does nothing")
		case s.Driver == "command":
			k.commandAction(here, a.action)
		case s.Preset != "":
			k.presetAction(here, a.key, a.action)
		default:
			k.httpAction(here, a.action)
		}
	}
}

// foreign reports keys of an action that mean nothing where it stands.
func (k *checker) foreign(path, message, remedy string, keys ...string) {
	for _, key := range keys {
		if k.given(path + "." + key) {
			k.add(path+"."+key, message, remedy)
		}
	}
}

func (k *checker) commandAction(path string, a *Action) {
	k.foreign(path, "is for driver: http", "remove it, or set driver: http", "method", "url", "headers", "body", "status", "match")
	if len(a.Command) == 0 || a.Command[0] == "" {
		k.add(path+".command", "is missing", "write a program and its arguments")
	}
	k.arguments(path+".command", a.Command)
}

func (k *checker) presetAction(path, key string, a *Action) {
	k.foreign(path, "is for driver: command", "remove it, or set driver: command", "command")
	keys := []string{"method", "url", "status", "match"}
	if key != "start" {
		keys = append(keys, "body")
	}
	k.foreign(path, "is said by the preset", "remove it, or remove preset and write the actions out", keys...)
	k.sendable(path, a)
}

var methodText = regexp.MustCompile(`^[A-Z]{3,16}$`)

func (k *checker) httpAction(path string, a *Action) {
	k.foreign(path, "is for driver: command", "remove it, or set driver: command", "command")
	if a.Method != "" && !methodText.MatchString(a.Method) {
		k.add(path+".method", "is not a method", "write one in capital letters, such as POST")
	}
	here := path + ".url"
	u, err := url.Parse(strings.ReplaceAll(a.URL, "${model}", "m"))
	whole := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
	switch {
	case a.URL == "":
		k.add(here, "is missing", "write a path at the slot's url, such as /wake_up, or a whole address")
	case err != nil || len(a.URL) > 2000 || !whole && (!strings.HasPrefix(a.URL, "/") || strings.HasPrefix(a.URL, "//")):
		k.add(here, "is neither a path nor an address", "write a path that begins with /, or an address with http:// or https://")
	case u.User != nil:
		k.add(here, "holds a user name or password", "put the key into headers")
	case u.Fragment != "":
		k.add(here, "holds a fragment", "leave out everything from # on")
	}
	if name, _, ok := strings.Cut(a.Match, "="); a.Match != "" && (!ok || name == "" || len(a.Match) > maxName) {
		k.add(path+".match", "must be path=value", "write where in the answer what must stand, such as status=ok")
	}
	k.sendable(path, a)
}

// maxActionBody bounds what an action sends.
const maxActionBody = 64 << 10

// sendable checks headers and body of a request.
func (k *checker) sendable(path string, a *Action) {
	if len(a.Body) > maxActionBody {
		k.add(path+".body", "is larger than 64 KiB", "shorten it")
	}
	for _, name := range sorted(a.Headers) {
		here := join(path+".headers", name)
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !headerName.MatchString(name):
			k.add(here, "is not the name of a header", "write letters, digits and -")
		case ownHeaders[canonical] && canonical != "Content-Type" && canonical != "Accept":
			k.add(here, "is a header the gateway sets itself", "remove it")
		case unsendable(a.Headers[name].Reveal()):
			k.add(here, "holds characters that cannot be sent in a header", "write plain text on one line")
		}
	}
}

var containerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func (k *checker) container(path string, s *Slot) {
	if s.Container == "" {
		k.add(path+".container", "is missing", "write the name of a container that exists, as docker ps -a shows it")
	}
	k.matches(path+".container", s.Container, containerName, "must be the name or id of a container", "write letters, digits and . _ -, as docker ps -a shows it")
	here := path + ".docker"
	switch {
	case s.Docker == "":
	case strings.HasPrefix(s.Docker, "unix:"):
		if _, ok := socketPath(s.Docker); !ok {
			k.add(here, "is not the address of a socket", "write unix:// and an absolute path, such as unix:///var/run/docker.sock")
		}
	case strings.HasPrefix(s.Docker, "tcp:"):
		k.add(here, "is not an address that can be asked", "write http:// instead of tcp://, or https:// if the daemon has TLS")
	default:
		if u := k.address(here, s.Docker); u != nil && strings.Trim(u.Path, "/") != "" {
			k.add(here, "has a path", "write scheme, host and port only, such as http://127.0.0.1:2375")
		}
	}
}

// act is an action for the catalog.
func (a *Action) act() *hearth.Action {
	if a == nil {
		return nil
	}
	return &hearth.Action{
		Command: a.Command, Method: a.Method, URL: a.URL, Headers: a.Headers, Body: a.Body,
		Status: a.Status, Match: a.Match, Timeout: a.Timeout,
	}
}
