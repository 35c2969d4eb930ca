package membership

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

// DefaultPort is the gossip port, TCP and UDP, of addresses that name none.
const DefaultPort = 7946

// DefaultLabel keeps Spate's gossip apart from other programs' on the same network.
const DefaultLabel = "spate"

// Config says how a process joins the cluster.
type Config struct {
	// Name is the first part of the node's name; a random suffix is added, so that a restarted process is a new node and does
	// not wait for the old one's death to be noticed.
	Name string
	// Meta is what the others are told about this member.
	Meta Meta
	// Bind is the IP and port that gossip listens on, TCP and UDP. Port 0 picks a free one. Default: all addresses, DefaultPort.
	Bind string
	// Advertise is the IP, with or without a port, at which others reach this member. Default: the bind address, or the first
	// private address of this machine if that is unspecified.
	Advertise string
	// Label names the cluster: members with another one refuse each other. Default DefaultLabel.
	Label string
	// Key encrypts gossip: 16, 24 or 32 bytes, the same for all members. Empty: gossip is plain.
	Key []byte
	// Seeds are addresses (host, or host:port) of any members. Host names are looked up again at each attempt. Empty: this
	// member waits to be found.
	Seeds []string
	// WAN slows gossip down to what networks between regions bear.
	WAN bool
	// Rejoin is how often seeds that are not among the members are tried again. Default 10 s; 1 s while alone.
	Rejoin time.Duration
	// Logger takes what there is to say, and memberlist's own log at debug level. Default slog.Default().
	Logger *slog.Logger
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("membership: the node needs a name"))
	}
	if n := len(c.Key); n != 0 && n != 16 && n != 24 && n != 32 {
		errs = append(errs, fmt.Errorf("membership: the gossip key has %d bytes; it must have 16, 24 or 32", n))
	}
	if n := len(c.Label); n > memberlist.LabelMaxSize {
		errs = append(errs, fmt.Errorf("membership: the cluster label has %d bytes; at most %d fit", n, memberlist.LabelMaxSize))
	}
	if _, err := c.bind(); err != nil {
		errs = append(errs, err)
	} else if _, err := c.advertise(net.InterfaceAddrs); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// bind returns the address gossip listens on.
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

// advertise returns the address others are told. Port 0: the port that bind gets.
func (c Config) advertise(interfaces func() ([]net.Addr, error)) (netip.AddrPort, error) {
	bind, err := c.bind()
	if err != nil {
		return bind, err
	}
	if c.Advertise != "" {
		a, err := parseIPPort(c.Advertise, bind.Port())
		if err == nil && a.Addr().IsUnspecified() {
			err = errors.New("nobody can be reached at the unspecified address; name the IP at which others reach this machine")
		}
		if err != nil {
			return a, fmt.Errorf("membership: advertise address %q: %w", c.Advertise, err)
		}
		return a, nil
	}
	if !bind.Addr().IsUnspecified() {
		return bind, nil
	}
	ip, err := privateAddress(interfaces)
	return netip.AddrPortFrom(ip, bind.Port()), err
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
		return netip.AddrPort{}, fmt.Errorf("%q is not an IP; host names are not possible here, as others must see one fixed address", host)
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not a port", p)
	}
	return netip.AddrPortFrom(ip, uint16(n)), nil
}

// privateAddress returns the first private address of this machine.
func privateAddress(interfaces func() ([]net.Addr, error)) (netip.Addr, error) {
	addrs, err := interfaces()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("membership: this machine's addresses cannot be read: %w", err)
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().IsPrivate() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, errors.New("membership: this machine has no private IP to advertise; " +
		"set the advertise address to the IP at which others reach it")
}
