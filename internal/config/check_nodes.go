package config

import (
	"strconv"
	"strings"

	"myip.co.kr/hearth"
)

func (k *checker) node(path string, n *Node) {
	if k.matches(path+".name", n.Name, placeName, "must be a plain name", "write letters, digits and . _ -, such as gpu-1") {
		k.unique(k.nodes, n.Name, path+".name", "the node name "+quote(n.Name))
	}
	if n.URL == "" {
		k.ownNode(path, n)
	} else {
		k.remoteNode(path, n)
	}
	for i := range n.Slots {
		k.slot(at(path+".slots", i), n, &n.Slots[i])
	}
}

func (k *checker) ownNode(path string, n *Node) {
	for _, key := range []string{"token", "token_file", "ca", "insecure"} {
		if k.given(path + "." + key) {
			k.add(path+"."+key, "is for nodes of another machine", "add url, or remove it")
		}
	}
	if k.given(path+".free_memory") && (len(n.FreeMemory) == 0 || n.FreeMemory[0] == "") {
		k.add(path+".free_memory", "names no program", "write a program and its arguments, or remove the line")
	}
	k.arguments(path+".free_memory", n.FreeMemory)
	k.nodeDevices(path, n)
	k.week(path+".available", n.Available)
}

// elsewhere reports what the owner of a remote node says itself.
func (k *checker) elsewhere(path string, keys ...string) {
	for _, key := range keys {
		if k.given(path + "." + key) {
			k.add(path+"."+key, "is for the other machine to say", "move it to the configuration of its hearth node")
		}
	}
}

func (k *checker) remoteNode(path string, n *Node) {
	k.elsewhere(path, "exclusive", "turn", "min_resident", "free_memory", "devices", "available")
	tokenPath := path + ".token"
	if n.TokenFile != "" {
		tokenPath += "_file"
	}
	k.secret(tokenPath, n.Token)
	if n.Token == "" {
		k.add(tokenPath, "is missing", "write the token of the other machine's node_server, as ${env:NAME} or in token_file")
	}
	here := path + ".url"
	if strings.HasPrefix(n.URL, "unix:") {
		if _, ok := socketPath(n.URL); !ok {
			k.add(here, "is not the address of a socket", "write unix:// and an absolute path, such as unix:///run/hearth-node.sock")
		}
		k.onlyFor(path, "unix")
		return
	}
	u := k.address(here, n.URL)
	if u == nil || !k.house(here, u.Hostname()) {
		return
	}
	switch {
	case strings.Trim(u.Path, "/") != "":
		k.add(here, "has a path", "write scheme, host and port only, such as https://gpu-2.lan:8801")
	case u.Scheme == "http" && !n.Insecure && !isLoopback(u.Hostname()):
		k.add(here, "is not encrypted: prompts and the token can be read on the way", "use https://, or add insecure: true if that is meant")
	}
	k.onlyFor(path, u.Scheme)
}

// onlyFor reports keys that mean nothing for an address with that scheme.
func (k *checker) onlyFor(path, scheme string) {
	if scheme != "https" && k.given(path+".ca") {
		k.add(path+".ca", "is for addresses with https://", "remove it, or use https://")
	}
	if scheme != "http" && k.given(path+".insecure") {
		k.add(path+".insecure", "is for addresses with http://", "remove it")
	}
}

// minToken is how many characters a token between machines must have at least.
const minToken = 16

func (k *checker) nodeServer(path string, n *NodeServer) {
	if n == nil {
		return
	}
	tokenPath := path + ".token"
	if n.TokenFile != "" {
		tokenPath += "_file"
	}
	k.secret(tokenPath, n.Token)
	switch {
	case n.Token == "":
		k.add(tokenPath, "is missing", "write a long random text, as ${env:NAME} or in token_file: gateways must send it")
	case len(n.Token) < minToken:
		k.add(tokenPath, "is shorter than "+strconv.Itoa(minToken)+" characters", "use a long random text")
	}
	tls := n.TLSCert != "" && n.TLSKey != ""
	switch {
	case tls:
	case n.TLSCert != "":
		k.add(path+".tls_cert", "needs tls_key beside it", "name the file of the key as well")
	case n.TLSKey != "":
		k.add(path+".tls_key", "needs tls_cert beside it", "name the file of the certificate as well")
	}
	here := path + ".listen"
	if strings.HasPrefix(n.Listen, "unix:") {
		if _, ok := socketPath(n.Listen); !ok {
			k.add(here, "is not the address of a socket", "write unix:// and an absolute path, such as unix:///run/hearth-node.sock")
		}
		return
	}
	host, port, ok := hostPort(n.Listen)
	switch {
	case !ok:
		k.add(here, "must be host:port or unix:///path", "write 127.0.0.1:8801, or :8801 for every network")
		return
	case !tls && !n.Insecure && !isLoopback(host):
		k.add(here, "serves other machines without TLS: prompts and the token can be read on the way", "add tls_cert and tls_key, or insecure: true if that is meant")
	}
	k.taken(here, port)
}

// remoteSlot checks a slot that another machine owns: what concerns its engine is said there.
func (k *checker) remoteSlot(path string) {
	k.elsewhere(path, "driver", "command", "env", "dir", "port", "url", "trust", "api_key", "api_key_file", "probe", "start", "stop", "status",
		"preset", "container", "docker", "on_exit", "min_free", "expected_load", "start_timeout", "stop_grace", "idle_sleep", "drain_max",
		"devices", "memory", "resident", "keep_warm")
}

// arguments checks the texts of a command.
func (k *checker) arguments(path string, command []string) {
	for i, arg := range command {
		if strings.ContainsRune(arg, 0) {
			k.add(at(path, i), "holds a zero byte", "write plain text")
		}
	}
}

// remote is what the catalog knows of the owner of a node, nil for one of this machine.
func (n *Node) remote() *hearth.Remote {
	if n.URL == "" {
		return nil
	}
	return &hearth.Remote{URL: strings.TrimRight(n.URL, "/"), Token: n.Token, CA: n.CA}
}
