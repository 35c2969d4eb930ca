// Package membership lets coordinators and agents find each other: by gossip (memberlist), or from a static list of addresses.
//
// It finds only. Whether an agent is alive during a run is for the control stream to say: gossip needs seconds to a minute to
// notice a dead node. It must not carry secrets or run state. The coordinator calls it to be found and to list agents, agents
// call it to learn which gRPC address to dial.
package membership

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Finder says where coordinators are.
type Finder interface {
	// Coordinators returns the gRPC addresses of the coordinators known now. It blocks until there is one or ctx ends.
	Coordinators(ctx context.Context) ([]string, error)
}

// Static is a list of coordinators' gRPC addresses that needs no gossip.
type Static []string

// Coordinators returns the list.
func (s Static) Coordinators(context.Context) ([]string, error) {
	if len(s) == 0 {
		return nil, errors.New("membership: no coordinator address is given")
	}
	return slices.Clone(s), nil
}

// Member is one process of the cluster.
type Member struct {
	// Name is the node's name, random suffix included.
	Name string
	// Process is the name without the suffix: what the process calls itself.
	Process string
	// Role is what it does.
	Role Role
	// Region is where it stands. May be empty.
	Region string
	// GRPC is the address of its gRPC services. Empty: it serves none.
	GRPC string
	// Gossip is the address of its gossip.
	Gossip string
}

// Cluster is this process's membership. Its methods may be called concurrently. Close ends it.
type Cluster struct {
	cfg     Config
	list    *memberlist.Memberlist
	log     *slog.Logger
	changed chan struct{} // capacity 1: "look again"; memberlist's callbacks only ever put into it

	mu      sync.Mutex
	watch   chan struct{} // closed and replaced at each change
	stop    chan struct{}
	stopped sync.WaitGroup
	once    sync.Once
}

// Join starts gossip and keeps joining the seeds until Close. It fails only if this process cannot take part at all; seeds that
// do not answer are tried again in the background, so that the order in which processes start does not matter.
func Join(cfg Config) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Rejoin <= 0 {
		cfg.Rejoin = 10 * time.Second
	}
	c := &Cluster{
		cfg: cfg, log: cfg.Logger,
		changed: make(chan struct{}, 1), watch: make(chan struct{}), stop: make(chan struct{}),
	}
	mc, err := c.memberlistConfig()
	if err != nil {
		return nil, err
	}
	if c.list, err = memberlist.Create(mc); err != nil {
		return nil, fmt.Errorf("membership: gossip cannot start on %s:%d (is the port taken?): %w", mc.BindAddr, mc.BindPort, err)
	}
	c.stopped.Go(c.spread)
	c.stopped.Go(c.rejoin)
	return c, nil
}

// memberlistConfig translates the configuration.
func (c *Cluster) memberlistConfig() (*memberlist.Config, error) {
	bind, err := c.cfg.bind()
	if err != nil {
		return nil, err
	}
	adv, err := c.cfg.advertise(net.InterfaceAddrs)
	if err != nil {
		return nil, err
	}
	mc := preset(adv.Addr(), c.cfg.WAN)
	mc.Name = c.cfg.Name + "-" + suffix()
	mc.BindAddr, mc.BindPort = bind.Addr().String(), int(bind.Port())
	mc.AdvertiseAddr, mc.AdvertisePort = adv.Addr().String(), int(adv.Port())
	mc.Label = c.cfg.Label
	if mc.Label == "" {
		mc.Label = DefaultLabel
	}
	mc.SecretKey = c.cfg.Key
	mc.Delegate, mc.Events = metaDelegate(c.cfg.Meta.Encode()), signal(c.changed)
	mc.Logger = debugLogger(c.log)
	return mc, nil
}

// preset picks memberlist's timing.
func preset(advertise netip.Addr, wan bool) *memberlist.Config {
	switch {
	case wan:
		return memberlist.DefaultWANConfig()
	case advertise.IsLoopback():
		return memberlist.DefaultLocalConfig()
	default:
		return memberlist.DefaultLANConfig()
	}
}

// suffix makes a node's name unique.
func suffix() string {
	var b [4]byte
	rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}

// withoutSuffix undoes what Join does to a name.
func withoutSuffix(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		return name[:i]
	}
	return name
}

// Name returns this node's name, random suffix included.
func (c *Cluster) Name() string { return c.list.LocalNode().Name }

// Address returns the gossip address of this node, which others can use as a seed.
func (c *Cluster) Address() string { return gossipAddress(c.list.LocalNode()) }

// Members returns the members seen alive, this one included, by name. Nodes whose meta is not understood are left out: another
// version, or another program.
func (c *Cluster) Members() []Member {
	var out []Member
	for _, n := range c.list.Members() {
		meta, err := ParseMeta(n.Meta)
		if err != nil {
			c.log.Debug("gossip member ignored", "node", n.Name, "reason", err)
			continue
		}
		out = append(out, member(n, meta))
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// member joins what gossip and the node itself say.
func member(n *memberlist.Node, meta Meta) Member {
	m := Member{Name: n.Name, Process: withoutSuffix(n.Name), Role: meta.Role, Region: meta.Region, Gossip: gossipAddress(n)}
	if meta.GRPCPort != 0 {
		m.GRPC = net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(meta.GRPCPort)))
	}
	return m
}

func gossipAddress(n *memberlist.Node) string {
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}

// Changed returns a channel that is closed at the next change of the members. Take it before Members, so that none is missed.
func (c *Cluster) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watch
}

// Coordinators returns the gRPC addresses of the coordinators seen alive. It blocks until there is one or ctx ends.
func (c *Cluster) Coordinators(ctx context.Context) ([]string, error) {
	for {
		changed := c.Changed()
		if found := c.coordinators(); len(found) > 0 {
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

func (c *Cluster) coordinators() []string {
	var out []string
	for _, m := range c.Members() {
		if m.Role == RoleCoordinator && m.GRPC != "" {
			out = append(out, m.GRPC)
		}
	}
	return out
}

// leaveTimeout bounds how long Close waits for its farewell to spread.
const leaveTimeout = time.Second

// Close tells the others that this member leaves, then ends gossip. It blocks for a second at most and may be called twice.
func (c *Cluster) Close() error {
	var err error
	c.once.Do(func() {
		close(c.stop)
		c.stopped.Wait()
		if lerr := c.list.Leave(leaveTimeout); lerr != nil {
			c.log.Debug("gossip farewell did not spread", "error", lerr)
		}
		if err = c.list.Shutdown(); err != nil {
			err = fmt.Errorf("membership: shutdown: %w", err)
		}
	})
	return err
}
