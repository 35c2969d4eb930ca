package socket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
)

// Sources are the local addresses that connections are made from, in turn. Each has its own range of ports for each
// endpoint.
type Sources struct {
	v4, v6 []netip.Addr
	turn   atomic.Uint64
}

// NewSources sorts addresses by family. It returns nil if there are none.
func NewSources(all []netip.Addr) *Sources {
	if len(all) == 0 {
		return nil
	}
	s := new(Sources)
	for _, a := range all {
		if a = a.Unmap(); a.Is4() {
			s.v4 = append(s.v4, a)
		} else {
			s.v6 = append(s.v6, a)
		}
	}
	return s
}

// candidates returns the addresses that a connection to addr can be made from, in groups in the order in which to try
// them. For a name both families are returned, as it is not known yet to which its addresses belong.
func (s *Sources) candidates(addr string) [][]netip.Addr {
	to, err := netip.ParseAddrPort(addr)
	switch {
	case err != nil:
		return [][]netip.Addr{s.v4, s.v6}
	case to.Addr().Unmap().Is4():
		return [][]netip.Addr{s.v4}
	}
	return [][]netip.Addr{s.v6}
}

// control prepares a socket before it connects, as net.Dialer's Control does.
type control = func(network, addr string, c syscall.RawConn) error

// dial opens a TCP connection from the next address in turn. Nil sources: the system picks the address.
func (s *Sources) dial(ctx context.Context, addr string, prepare control) (net.Conn, error) {
	if s == nil {
		return dialFrom(ctx, netip.Addr{}, addr, prepare)
	}
	err := errors.New("no source address has the endpoint's address family (IPv4 or IPv6)")
	for _, from := range s.candidates(addr) {
		if len(from) == 0 {
			continue
		}
		a := from[(s.turn.Add(1)-1)%uint64(len(from))]
		var c net.Conn
		if c, err = dialFrom(ctx, a, addr, prepare); err == nil {
			return c, nil
		}
		if _, other := errors.AsType[*net.AddrError](err); !other {
			return nil, err
		}
	}
	return nil, err
}

// dialFrom opens a TCP connection from an address. The zero address: the system picks one. The kernel looks for a local
// port among a few first, and among all if these are taken.
func dialFrom(ctx context.Context, from netip.Addr, addr string, prepare control) (net.Conn, error) {
	var d net.Dialer
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	ports := nextWindow()
	d.Control = func(network, addr string, c syscall.RawConn) error {
		ports.narrow(c)
		return prepare(network, addr, c)
	}
	c, err := d.DialContext(ctx, "tcp", addr)
	if NoPort(err) {
		d.Control = prepare
		return d.DialContext(ctx, "tcp", addr)
	}
	return c, err
}

// prepareSocket is a net.Dialer's Control.
func prepareSocket(_, _ string, c syscall.RawConn) error {
	if err := askForStamps(c); err != nil {
		return err
	}
	portAtConnect(c)
	return nil
}

// NoPort reports whether this machine refused a connection because it has no free port or not the source address.
func NoPort(err error) bool { return errors.Is(err, syscall.EADDRNOTAVAIL) }
