package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/node"
	"myip.co.kr/hearth/internal/server"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/upstream"
)

// remote makes the client of a node that is another machine's.
func remote(o Options) func(*hearth.Node, []*hearth.Slot) (slot.Node, error) {
	return func(n *hearth.Node, slots []*hearth.Slot) (slot.Node, error) {
		c, err := node.Dial(n, slots, node.ClientOptions{Agent: "hearth/" + o.Version, Log: o.Log})
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

// unasked stands for the other machines of a configuration that is only looked at: their slots are asleep.
type unasked struct{ slot.Node }

func (unasked) View(string) hearth.SlotView { return hearth.SlotView{} }
func (unasked) Watch(func(slot.Event))      {}
func (unasked) RefuseWaiters()              {}
func (unasked) Close(context.Context) error { return nil }

// notAsked makes the nodes of a configuration that is only looked at.
func notAsked(*hearth.Node, []*hearth.Slot) (slot.Node, error) { return unasked{}, nil }

// Node is a built hearth node: this machine's slots, for gateways elsewhere. Serve runs it, Close ends what Serve did not.
type Node struct {
	app    *App // its slots and what belongs to them: no keys, no records, no callers
	server *node.Server
	cert   atomic.Pointer[tls.Certificate] // nil = no TLS
	reload sync.Mutex                      // one at a time
}

// OpenNode builds what owns the slots of this machine. Nothing is started.
func OpenNode(ctx context.Context, cfg *config.Config, o Options) (n *Node, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n = &Node{app: &App{o: o, log: o.Log, ending: make(chan struct{})}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}()
	if cfg.NodeServer == nil {
		return n, errors.New("the configuration has no node_server, which says where gateways reach this machine, and with which token")
	}
	first, err := newSnapshot(cfg, config.Rates{})
	if err != nil {
		return n, err
	}
	n.app.now.Store(first)
	if len(own(n.app.Catalog())) == 0 {
		return n, errors.New("the configuration has no slot of this machine: write its GPU and its models under nodes")
	}
	if err := n.certify(cfg.NodeServer); err != nil {
		return n, err
	}
	release, err := journal.Hold(filepath.Join(cfg.DataDir, "journal")) // two owners of one directory would end each other's engines
	if errors.Is(err, journal.ErrInUse) {
		return n, fmt.Errorf("the data_dir %s is in use by another hearth: end that one, or give this one a data_dir of its own", cfg.DataDir)
	}
	if err != nil {
		return n, err
	}
	n.app.push(func(context.Context) error { return release() })
	if err := n.app.openSlots(ctx, o); err != nil {
		return n, err
	}
	n.server = node.NewServer(node.ServerOptions{
		Catalog: n.app.Catalog(), Fleet: n.app.fleet, Order: n.app.order, Token: cfg.NodeServer.Token, MaxBody: int64(cfg.Request.MaxBody),
		Engines: upstream.LocalTransport(n.app.Catalog(), o.LocalDial), Stall: o.WriteLimit, Log: o.Log,
		Metrics: server.SlotMetrics(o.Version, func() *server.Server { return n.app.Server.Now() }, o.Log),
	})
	n.app.Server = server.NewLive(n.operator())
	n.app.listenAdmin()
	return n, nil
}

// operator is what the operator of this machine sees, on its admin socket.
func (n *Node) operator() *server.Server {
	return server.NewOperator(server.Parts{
		Catalog: n.app.Catalog(), Fleet: n.app.fleet, Log: n.app.log, Order: n.app.order, Notices: n.app.reloads.notices, Ending: n.app.ending,
	})
}

// own are the slots of this machine.
func own(c *hearth.Catalog) (slots []*hearth.Slot) {
	for _, s := range c.Slots {
		if s.Node.Remote == nil {
			slots = append(slots, s)
		}
	}
	return slots
}

// Slots is how many slots gateways can use.
func (n *Node) Slots() int { return len(own(n.app.Catalog())) }

// certify reads the certificate, if there is one.
func (n *Node) certify(c *config.NodeServer) error {
	if c.TLSCert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return fmt.Errorf("read tls_cert and tls_key: %w", err)
	}
	n.cert.Store(&cert)
	return nil
}

// tls is what connections are secured with, nil = they are not.
func (n *Node) tls() *tls.Config {
	if n.cert.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return n.cert.Load(), nil },
	}
}

// Reload makes a newer configuration of the slots hold, and the certificate that is in its file now. changes is all that
// differs; what needs a restart keeps its value until then. An error means that nothing has changed.
func (n *Node) Reload(cfg *config.Config) (changes []config.Change, err error) {
	n.reload.Lock()
	defer n.reload.Unlock()
	holds, changes := cfg.Follow(n.app.config())
	next, err := newSnapshot(holds, config.Rates{})
	if err != nil {
		return nil, err
	}
	if holds.NodeServer == nil || len(own(next.catalog)) == 0 {
		return nil, errors.New("the configuration has no node_server any more, or no slot of this machine")
	}
	cert := n.cert.Load()
	if cert != nil {
		if err := n.certify(holds.NodeServer); err != nil {
			return nil, err
		}
	}
	if err := n.app.fleet.Reload(next.catalog); err != nil {
		n.cert.Store(cert)
		return nil, err
	}
	n.app.now.Store(next)
	n.server.Reload(next.catalog)
	n.app.Server.Swap(n.operator())
	return changes, nil
}

// Listen opens the address of the configuration: host:port, or unix:///path.
func (n *Node) Listen() (net.Listener, error) {
	const remedy = "choose another one as node_server.listen in the configuration"
	address := n.app.config().NodeServer.Listen
	ln, err := listenNode(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is in use, perhaps by another hearth node; %s", address, remedy)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s (%w); %s", address, err, remedy)
	}
	return ln, nil
}

func listenNode(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok {
		return net.Listen("tcp", address)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close() // nothing was said
		return nil, syscall.EADDRINUSE
	}
	ln, err := openSocket(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil { // a gateway may run as another user of the group; it needs the token all the same
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// Serve answers gateways on ln until ctx ends or ln fails. Then new requests get slot words, those in engines may finish
// within the grace, the rest is ended, and the engines are stopped. hurry skips the waiting.
func (n *Node) Serve(ctx context.Context, ln net.Listener, hurry <-chan struct{}) error {
	srv := n.server.HTTP(n.tls())
	stopAdmin := n.app.serveAdmin(context.WithoutCancel(ctx), n.app.Server)
	failed := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			failed <- srv.ServeTLS(ln, "", "")
		} else {
			failed <- srv.Serve(ln)
		}
	}()
	select {
	case err := <-failed:
		failed <- err
	case <-ctx.Done():
		n.app.log.Info("shutting down", "grace", n.app.config().Shutdown.Grace)
	}
	grace, stop := hurried(n.app.config().Shutdown.Grace, hurry)
	n.server.Drain(grace)
	stop()
	close(n.app.ending)
	stopAdmin()
	n.server.Close()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer done()
	if err := srv.Shutdown(last); err != nil {
		n.app.log.Warn("closing connections that did not end", "err", srv.Close())
	}
	err := <-failed
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	} else {
		err = fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	end, stopped := context.WithTimeout(context.WithoutCancel(ctx), engineStop)
	defer stopped()
	err = errors.Join(err, n.app.Close(end))
	n.app.log.Info("stopped", "clean", err == nil)
	return err
}

// hurried is a context that ends after a time, or when hurry is closed.
func hurried(d time.Duration, hurry <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(context.Background(), max(d, time.Millisecond))
	go func() {
		select {
		case <-hurry:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// Close ends everything.
func (n *Node) Close(ctx context.Context) error {
	if n.server != nil {
		n.server.Close()
	}
	return n.app.Close(ctx)
}
