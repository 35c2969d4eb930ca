package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/spate-load/spate/internal/reason"
)

// DefaultPort is the gossip port, TCP and UDP, of addresses without a port.
const DefaultPort = 7946

// DefaultLabel keeps Spate's gossip apart from other programs' on the same network.
const DefaultLabel = "spate"

// Config configures how a process joins the cluster.
type Config struct {
	// Name is the first part of the node's name. A random suffix is added, so that a restarted process is a new node
	// and need not wait until the old node is noticed to be dead.
	Name string
	// Meta is what other members are told about this member.
	Meta Meta
	// Bind is the IP and port that gossip listens on, TCP and UDP. Port 0 picks a free one. Default: all addresses,
	// DefaultPort.
	Bind string
	// Advertise is the IP, with or without a port, at which others reach this member. Default: the bind address, or the
	// first private address of this machine if that is unspecified.
	Advertise string
	// Label names the cluster. Members with different labels refuse each other. Default DefaultLabel.
	Label string
	// Keys returns the keys that encrypt gossip, 16, 24 or 32 bytes each. The first key encrypts, all keys decrypt.
	// Validate and Join call Keys. If Keys is nil, or returns no keys, gossip is not encrypted.
	Keys func() ([][]byte, error)
	// Seeds are addresses (host or host:port) of any members. Host names are looked up again at each attempt. Empty:
	// this member waits until another one joins it.
	Seeds []string
	// WAN slows gossip down, for networks between regions.
	WAN bool
	// Rejoin is how often seeds that are not members are retried. Default 10 s; at most 1 s while no other member is
	// known.
	Rejoin time.Duration
	// Logger receives log messages, and memberlist's own log at debug level. Default slog.Default().
	Logger *slog.Logger

	resolve resolver // replaces the system's resolver in tests
	network network  // replaces sockets in tests
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	c.Logger, c.Label = cmp.Or(c.Logger, slog.Default()), cmp.Or(c.Label, DefaultLabel)
	if c.Rejoin <= 0 {
		c.Rejoin = 10 * time.Second
	}
	if c.resolve == nil {
		c.resolve = net.DefaultResolver.LookupHost
	}
	if c.network == nil {
		c.network = listen
	}
	return c
}

// Validate returns all errors in the configuration.
func (c Config) Validate() error {
	_, err := c.keys()
	return errors.Join(reason.If(c.Name == "", "membership: the node needs a name"), err,
		reason.If(len(c.Label) > memberlist.LabelMaxSize, "membership: the cluster label has %d bytes; at most %d fit",
			len(c.Label), memberlist.LabelMaxSize), c.checkAddresses())
}

// keys calls Keys and checks the result. No keys means plain gossip.
func (c Config) keys() ([][]byte, error) {
	if c.Keys == nil {
		return nil, nil
	}
	keys, err := c.Keys()
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	for i, key := range keys {
		if n := len(key); n != 16 && n != 24 && n != 32 {
			return nil, fmt.Errorf("membership: gossip key %d of %d has %d bytes; it must have 16, 24 or 32", i+1,
				len(keys), n)
		}
	}
	return keys, nil
}

// keyring makes the keyring for memberlist, nil for plain gossip.
func (c Config) keyring() (*memberlist.Keyring, error) {
	keys, err := c.keys()
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("membership: gossip keys: %w", err)
	}
	return ring, nil
}

// interfaces returns the addresses of this machine, like net.InterfaceAddrs.
type interfaces func() ([]net.Addr, error)

// checkAddresses returns an error if others could not reach this member. It opens nothing.
func (c Config) checkAddresses() error {
	adv, err := c.Advertised()
	if err != nil {
		return err
	}
	var errs []error
	for _, seed := range c.Seeds {
		host, _ := splitSeed(seed)
		if ip, err := netip.ParseAddr(host); err == nil {
			errs = append(errs, reachable(adv.Addr(), ip))
		}
	}
	return errors.Join(errs...)
}

// reachable returns an error if a member at peer cannot reach the advertised address. A loopback address is a different
// machine for every other member.
func reachable(advertise, peer netip.Addr) error {
	if !advertise.IsLoopback() || peer.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("membership: this member would tell %s to reach it at %s, which is loopback and so never this "+
		"machine for others: give one that %s can reach by --gossip-listen or --gossip-advertise", peer, advertise, peer)
}

// bind returns the address that gossip listens on.
func (c Config) bind() (netip.AddrPort, error) {
	if c.Bind == "" {
		return netip.AddrPortFrom(netip.IPv4Unspecified(), DefaultPort), nil
	}
	a, err := parseIPPort(c.Bind, DefaultPort)
	if err != nil {
		return a, fmt.Errorf("membership: bind address %q: %w", c.Bind, err)
	}
	return a, nil
}

// advertise returns the address that others are told. Port 0: the port that gossip will listen on.
func (c Config) advertise(of interfaces) (netip.AddrPort, error) {
	bind, err := c.bind()
	if err != nil {
		return bind, err
	}
	if c.Advertise != "" {
		a, err := parseIPPort(c.Advertise, bind.Port())
		if err == nil {
			err = checkAdvertised(a.Addr())
		}
		if err != nil {
			return a, fmt.Errorf("membership: advertise address %q: %w", c.Advertise, err)
		}
		return a, nil
	}
	if !bind.Addr().IsUnspecified() {
		return bind, nil
	}
	ip, err := privateAddress(of)
	return netip.AddrPortFrom(ip, bind.Port()), err
}

// Advertised returns the address at which others reach what listens on Bind. Port 0: the port that it will have.
func (c Config) Advertised() (netip.AddrPort, error) { return c.advertise(net.InterfaceAddrs) }

// checkAdvertised refuses addresses at which no member can be reached.
func checkAdvertised(ip netip.Addr) error {
	switch {
	case ip.IsUnspecified():
		return errors.New("the unspecified address cannot be reached; give the IP at which others reach this machine")
	case ip.IsMulticast():
		return errors.New("this is a multicast address; give the IP at which others reach this machine")
	case ip.IsLinkLocalUnicast():
		return errors.New("link-local addresses mean something else on each link; give an IP that all members can " +
			"reach")
	}
	return nil
}

// parseIPPort reads an IP with or without a port.
func parseIPPort(s string, port uint16) (netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(ip, port), nil
	}
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		return netip.AddrPort{}, errors.New("want an IP, or IP:PORT")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not an IP; host names are not allowed here, because others must "+
			"see one fixed address", host)
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not a port", p)
	}
	return netip.AddrPortFrom(ip, uint16(n)), nil
}

// privateAddress returns the first private address of this machine.
func privateAddress(of interfaces) (netip.Addr, error) {
	addrs, err := of()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("membership: this machine's addresses cannot be read: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsPrivate() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, errors.New("membership: this machine has no private IP to advertise; " +
		"set the advertise address to the IP at which others reach it")
}

// resolver looks a host name up, like net.Resolver.LookupHost. An IP resolves to itself.
type resolver func(ctx context.Context, host string) ([]string, error)

// lookUpTimeout bounds each look-up.
const lookUpTimeout = 5 * time.Second

// addresses returns all addresses of a host, with the port, sorted so that the order is the same each time.
func (r resolver) addresses(ctx context.Context, host, port string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	found, err := r(ctx, host)
	if err != nil {
		return nil, err
	}
	ips := slices.Sorted(slices.Values(found))
	for i, ip := range ips {
		ips[i] = net.JoinHostPort(ip, port)
	}
	return ips, nil
}

// splitSeed returns the host and the port of a seed. Without a port it is DefaultPort.
func splitSeed(seed string) (host, port string) {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return seed, strconv.Itoa(DefaultPort)
	}
	return host, port
}
