package netlab

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Lab is one network of hosts. Its methods are safe for concurrent use. The test that made it closes it.
type Lab struct {
	tb   testing.TB
	ctx  context.Context // ends with the lab
	end  context.CancelFunc
	busy sync.WaitGroup // readers and links
	seed uint64

	mu      sync.RWMutex
	hosts   map[string]*Host
	byIP    map[netip.Addr]*Host
	links   map[way]*link
	running []*Command
}

// way is a direction between two hosts.
type way struct{ from, to *Host }

// Require is the environment variable that makes tests fail rather than skip where namespaces are refused:
// SPATE_REQUIRE_NETNS=1.
const Require = "SPATE_REQUIRE_NETNS"

// Seed is the environment variable with the seed of jitter and losses. Default 1.
const Seed = "SPATE_NETLAB_SEED"

// New makes an empty network that lasts as long as the test. If network namespaces or TUN devices are refused, the test
// is skipped with a message; with SPATE_REQUIRE_NETNS=1 it fails.
func New(tb testing.TB) *Lab {
	tb.Helper()
	if err := possible(); err != nil {
		if os.Getenv(Require) == "1" {
			tb.Fatalf("NO NETWORK NAMESPACES: %v, and under %s=1 they must be there: run as root with /dev/net/tun",
				err, Require)
		}
		tb.Skipf("NOT TESTED OVER A NETWORK: %v: run as root with /dev/net/tun", err)
	}
	l := &Lab{tb: tb, seed: 1, hosts: map[string]*Host{}, byIP: map[netip.Addr]*Host{}, links: map[way]*link{}}
	if text := os.Getenv(Seed); text != "" {
		var err error
		if l.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("netlab: %s=%s: want a number: %v", Seed, text, err)
		}
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	tb.Cleanup(l.close)
	return l
}

// possible returns nil if this process may build networks, or else why not.
func possible() error {
	ns, err := newNamespace(func() error {
		tun, err := openDevice(address(1))
		if err != nil {
			return err
		}
		return tun.Close()
	})
	if err != nil {
		return err
	}
	return ns.file.Close()
}

// address returns the n-th address of the lab's network, 10.83.0.0/16.
func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 83, byte(n >> 8), byte(n)}) }

// Host returns the host with that name. The first call for a name makes the host: a namespace with loopback and one
// address, linked to all other hosts without delay.
func (l *Lab) Host(name string) *Host {
	l.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.hosts[name]; h != nil {
		return h
	}
	h, err := l.newHost(name, address(len(l.hosts)+1))
	if err != nil {
		l.tb.Fatalf("netlab: host %s: %v", name, err)
	}
	l.hosts[name], l.byIP[h.ip] = h, h
	l.busy.Go(h.read)
	return h
}

func (l *Lab) newHost(name string, ip netip.Addr) (*Host, error) {
	h := &Host{lab: l, name: name, ip: ip}
	var err error
	h.ns, err = newNamespace(func() (err error) {
		h.tun, err = openDevice(ip)
		return err
	})
	return h, err
}

// Link gives both directions between two hosts the same path. Packets in flight are not affected.
func (l *Lab) Link(a, b *Host, path Path) {
	l.OneWay(a, b, path)
	l.OneWay(b, a, path)
}

// OneWay gives one direction between two hosts a path. Packets in flight are not affected.
func (l *Lab) OneWay(from, to *Host, path Path) {
	l.link(from, to).change(func(s *shaper) { s.path = path })
}

// Partition cuts the link between two hosts: packets are dropped silently in both directions, as by a broken line.
func (l *Lab) Partition(a, b *Host) { l.both(a, b, func(s *shaper) { s.cut = true }) }

// BlockUDP drops UDP between two hosts in both directions, as some firewalls do. Everything else passes.
func (l *Lab) BlockUDP(a, b *Host) { l.both(a, b, func(s *shaper) { s.noUDP = true }) }

// Heal ends Partition and BlockUDP between two hosts.
func (l *Lab) Heal(a, b *Host) { l.both(a, b, func(s *shaper) { s.cut, s.noUDP = false, false }) }

func (l *Lab) both(a, b *Host, how func(*shaper)) {
	l.link(a, b).change(how)
	l.link(b, a).change(how)
}

// Count returns the counters of the direction between two hosts so far.
func (l *Lab) Count(from, to *Host) Count {
	var count Count
	l.link(from, to).change(func(s *shaper) { count = s.count })
	return count
}

// link returns the link of a direction. The first call for a direction makes the link.
func (l *Lab) link(from, to *Host) *link {
	l.mu.RLock()
	k := l.links[way{from, to}]
	l.mu.RUnlock()
	if k != nil {
		return k
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.links[way{from, to}]; k != nil {
		return k
	}
	k = newLink(to.tun, l.chance(from, to))
	l.links[way{from, to}] = k
	l.busy.Go(func() { k.carry(l.ctx) })
	return k
}

// chance returns the random source of a direction's jitter and losses. No two directions share one.
func (l *Lab) chance(from, to *Host) *rand.Rand {
	a, b := from.ip.As4(), to.ip.As4()
	return rand.New(rand.NewPCG(l.seed,
		uint64(binary.BigEndian.Uint32(a[:]))<<32|uint64(binary.BigEndian.Uint32(b[:]))))
}

// host returns the host with an address, or nil.
func (l *Lab) host(ip netip.Addr) *Host {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.byIP[ip]
}

// close kills running processes and takes the network down.
func (l *Lab) close() {
	l.mu.RLock()
	running, hosts := l.running, l.hosts
	l.mu.RUnlock()
	for _, c := range running {
		c.reap()
	}
	l.end()
	for _, h := range hosts {
		h.tun.Close()
	}
	l.busy.Wait()
	for _, h := range hosts {
		h.ns.file.Close()
	}
}
