package membership

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// interfaces returns the addresses of this machine, like net.InterfaceAddrs.
type interfaces func() ([]net.Addr, error)

// checkAddresses returns an error if others could not reach this member. It opens nothing.
func (c Config) checkAddresses() error {
	adv, err := c.advertise(net.InterfaceAddrs)
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
		"machine for others: "+
		"let gossip listen on, or advertise, an address of this machine that %s can reach", peer, advertise, peer)
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
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().IsPrivate() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, errors.New("membership: this machine has no private IP to advertise; " +
		"set the advertise address to the IP at which others reach it")
}
