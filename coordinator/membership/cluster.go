// Package membership lets coordinators and agents find each other: by gossip (memberlist), or from a static list of
// addresses.
//
// It only finds members. During a run the control stream decides whether an agent is alive, because gossip takes
// seconds to a minute to notice a dead node. Gossip must not carry secrets or run state. The coordinator uses the
// package to be found and to list agents; agents use it to learn which gRPC address to dial.
package membership

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Member is one process of the cluster.
type Member struct {
	// Name is the node's name, random suffix included.
	Name string
	// Process is the name without the suffix: the process's own name.
	Process string
	// Role is what the process does.
	Role Role
	// Region is the process's region. It may be empty.
	Region string
	// GRPC is the address of the process's gRPC services. Empty: it has none.
	GRPC string
	// Gossip is the process's gossip address.
	Gossip string
}

// Cluster is this process's membership of the cluster. Its methods may be called concurrently. Close ends the
// membership.
type Cluster struct {
	cfg    Config
	list   *memberlist.Memberlist
	log    *slog.Logger
	roster *roster

	stop    <-chan struct{} // closed by halt
	halt    context.CancelFunc
	stopped sync.WaitGroup
	once    sync.Once
}

// Join starts gossip and keeps joining the seeds until Close. It fails only if this process cannot take part at all.
// Seeds that do not answer are retried in the background, so the order in which processes start does not matter.
func Join(cfg Config) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	ctx, halt := context.WithCancel(context.Background())
	c := &Cluster{cfg: cfg, log: cfg.Logger, roster: newRoster(cfg.Logger), stop: ctx.Done(), halt: halt}
	if err := c.open(ctx); err != nil {
		halt()
		return nil, err
	}
	c.stopped.Go(func() { c.rejoin(ctx) })
	return c, nil
}

// open opens the network and starts memberlist.
func (c *Cluster) open(ctx context.Context) error {
	mc, err := c.memberlistConfig()
	if err != nil {
		return err
	}
	t, err := c.cfg.network(ctx, mc)
	if err != nil {
		return err
	}
	mc.Transport = t
	if c.list, err = memberlist.Create(mc); err != nil {
		return errors.Join(fmt.Errorf("membership: gossip cannot start on %s:%d: %w", mc.BindAddr, mc.BindPort, err),
			t.Shutdown())
	}
	return nil
}

// memberlistConfig translates the configuration for memberlist.
func (c *Cluster) memberlistConfig() (*memberlist.Config, error) {
	bind, err := c.cfg.bind()
	if err != nil {
		return nil, err
	}
	adv, err := c.cfg.Advertised()
	if err != nil {
		return nil, err
	}
	mc := preset(c.cfg.WAN)
	var suffix [4]byte   // makes the node's name unique
	rand.Read(suffix[:]) // never fails, by its contract
	mc.Name = fmt.Sprintf("%s-%x", c.cfg.Name, suffix)
	mc.BindAddr, mc.BindPort = bind.Addr().String(), int(bind.Port())
	mc.AdvertiseAddr, mc.AdvertisePort = adv.Addr().String(), int(adv.Port())
	mc.Label = c.cfg.Label
	if mc.Keyring, err = c.cfg.keyring(); err != nil {
		return nil, err
	}
	mc.Delegate, mc.Events = metaDelegate(c.cfg.Meta.Encode()), c.roster
	mc.Logger = debugLogger(c.log)
	return mc, nil
}

// datagramBytes is the most that gossip puts into one UDP packet: the smallest MTU of a link that carries IPv6 (RFC
// 8200), 1280, less the headers of IPv6 (40) and UDP (8). Tunnels and overlays use some of a link's 1500 bytes, and
// larger packets are lost silently.
const datagramBytes = 1280 - 40 - 8

// checksumBytes is the checksum that memberlist puts before a datagram and does not count.
const checksumBytes = 5

// exchangeInterval is how often a member exchanges its full state with another member over TCP; memberlist does so less
// often beyond 32 members. The exchange repairs what lost datagrams missed, and is the only way that news spreads where
// UDP is blocked. The state of 200 members is about 20 KiB.
const exchangeInterval = 10 * time.Second

// preset returns memberlist's LAN or WAN preset, adjusted. Its third preset, for loopback, is not used: it suspects a
// member after 200 ms without an answer, which a machine under load sometimes needs, and it repeats news so rarely that
// half a member of 200 misses it on average. Compression is off, because messages are short and an agent's CPU is for
// load.
func preset(wan bool) *memberlist.Config {
	mc := memberlist.DefaultLANConfig()
	if wan {
		mc = memberlist.DefaultWANConfig()
	}
	mc.UDPBufferSize, mc.EnableCompression = datagramBytes-checksumBytes, false
	mc.PushPullInterval = exchangeInterval
	return mc
}

// withoutSuffix removes the suffix that Join adds to a name.
func withoutSuffix(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		return name[:i]
	}
	return name
}

// Address returns this node's gossip address, which others can use as a seed.
func (c *Cluster) Address() string {
	n := c.list.LocalNode()
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}

// Members returns the live members, sorted by name, including this one. Nodes whose meta cannot be parsed are left out:
// they are of another version or another program.
func (c *Cluster) Members() []Member {
	return slices.DeleteFunc(c.roster.all(), func(m Member) bool { return m.Role == 0 })
}

// Changed returns a channel that is closed when the members change. Call it before Members, so that no change is
// missed.
func (c *Cluster) Changed() <-chan struct{} {
	c.roster.mu.Lock()
	defer c.roster.mu.Unlock()
	return c.roster.changed
}

// Coordinators returns the gRPC addresses of the live coordinators. It blocks until there is one, and fails at Close or
// when ctx ends.
func (c *Cluster) Coordinators(ctx context.Context) ([]string, error) {
	for {
		changed := c.Changed()
		var found []string
		for _, m := range c.Members() {
			if m.Role == RoleCoordinator && m.GRPC != "" {
				found = append(found, m.GRPC)
			}
		}
		if found != nil {
			return found, nil
		}
		select {
		case <-changed:
		case <-c.stop:
			return nil, errors.New("membership: closed")
		case <-ctx.Done():
			return nil, fmt.Errorf("membership: no coordinator found by gossip (%d members; seeds %v): %w",
				len(c.Members()), c.cfg.Seeds, ctx.Err())
		}
	}
}

// leaveTimeout bounds how long Close waits for the leave message to spread.
const leaveTimeout = time.Second

// Close tells the other members that this one leaves, then ends gossip. It waits at most a second for the message to
// spread. It may be called twice.
func (c *Cluster) Close() error {
	var err error
	c.once.Do(func() {
		c.halt()
		c.stopped.Wait()
		if lerr := c.list.Leave(leaveTimeout); lerr != nil {
			c.log.Debug("the leave message did not spread", "error", lerr)
		}
		if err = c.list.Shutdown(); err != nil {
			err = fmt.Errorf("membership: shutdown: %w", err)
		}
	})
	return err
}

// Stable blocks until the members have not changed for quiet, so that work is not split while agents still arrive. It
// fails when ctx ends first, or at Close. The caller bounds the wait with ctx, and may continue with the current
// members.
func (c *Cluster) Stable(ctx context.Context, quiet time.Duration) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-c.Changed():
			timer.Reset(quiet)
		case <-timer.C:
			return nil
		case <-c.stop:
			return errors.New("membership: closed")
		case <-ctx.Done():
			return fmt.Errorf("membership: members keep changing: %w", ctx.Err())
		}
	}
}

// transport is memberlist's own transport, except that dialing ends with the cluster, so that Close does not wait for
// seeds that never answer.
type transport struct {
	*memberlist.NetTransport
	ctx context.Context
}

// network opens gossip's transport. It lasts as long as ctx.
type network func(ctx context.Context, mc *memberlist.Config) (memberlist.NodeAwareTransport, error)

// bindTries is how often a free port is tried: the port that TCP got may be taken for UDP.
const bindTries = 10

// listen opens the sockets that mc names, and sets the ports that it got in mc.
func listen(ctx context.Context, mc *memberlist.Config) (memberlist.NodeAwareTransport, error) {
	want := &memberlist.NetTransportConfig{BindAddrs: []string{mc.BindAddr}, BindPort: mc.BindPort, Logger: mc.Logger}
	nt, err := memberlist.NewNetTransport(want)
	for try := 1; err != nil && mc.BindPort == 0 && try < bindTries; try++ {
		nt, err = memberlist.NewNetTransport(want)
	}
	if err != nil {
		return nil, fmt.Errorf("membership: gossip cannot start on %s:%d (is the port taken, or the address not "+
			"this machine's? --gossip-listen sets another): %w", mc.BindAddr, mc.BindPort, err)
	}
	mc.BindPort = cmp.Or(mc.BindPort, nt.GetAutoBindPort())
	mc.AdvertisePort = cmp.Or(mc.AdvertisePort, mc.BindPort)
	return &transport{NetTransport: nt, ctx: ctx}, nil
}

// DialAddressTimeout connects over TCP. It fails when the cluster is closed.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	return dialer.DialContext(t.ctx, "tcp", a.Addr)
}

// metaDelegate gives memberlist this node's meta. Gossip spreads nothing else.
type metaDelegate []byte

// NodeMeta returns the meta, which is always far below the limit: see Meta.
func (d metaDelegate) NodeMeta(int) []byte { return d }

// NotifyMsg ignores messages, because none are sent.
func (metaDelegate) NotifyMsg([]byte) {}

// GetBroadcasts returns nil: there are no broadcasts.
func (metaDelegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns nil: there is no state to exchange.
func (metaDelegate) LocalState(bool) []byte { return nil }

// MergeRemoteState ignores the other member's state.
func (metaDelegate) MergeRemoteState([]byte, bool) {}

// debugLogger turns memberlist's log lines into debug records.
func debugLogger(l *slog.Logger) *log.Logger { return log.New(debugWriter{l}, "", 0) }

type debugWriter struct{ log *slog.Logger }

// Write logs one line.
func (w debugWriter) Write(line []byte) (int, error) {
	w.log.Debug("gossip", "line", strings.TrimSpace(string(line)))
	return len(line), nil
}
