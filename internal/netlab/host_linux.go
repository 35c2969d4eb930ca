package netlab

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
)

// Host is one machine of the network: a namespace with loopback and one address. It ends with its Lab.
type Host struct {
	lab  *Lab
	name string
	ip   netip.Addr
	ns   *namespace
	tun  *os.File
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// IP returns the host's address.
func (h *Host) IP() netip.Addr { return h.ip }

// Addr returns IP:port of the host.
func (h *Host) Addr(port int) string { return net.JoinHostPort(h.ip.String(), strconv.Itoa(port)) }

// Do calls a function in a thread that is on the host, and waits for it. Sockets that the function opens belong to the
// host permanently. Sockets that other goroutines open, even if the function starts those goroutines, do not.
func (h *Host) Do(run func() error) error { return h.ns.do(run) }

// Dial connects from the host. address is IP:port: host names are not looked up on the host.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := h.Do(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen opens a listener on the host. address is IP:port; the caller closes the listener.
func (h *Host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var l net.Listener
	err := h.Do(func() (err error) {
		l, err = new(net.ListenConfig).Listen(ctx, network, address)
		return err
	})
	return l, err
}

// ListenPacket opens a packet socket on the host. address is IP:port; the caller closes the socket.
func (h *Host) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	var c net.PacketConn
	err := h.Do(func() (err error) {
		c, err = new(net.ListenConfig).ListenPacket(ctx, network, address)
		return err
	})
	return c, err
}

// Offsets in an IPv4 header (RFC 791).
const (
	headerBytes = 20
	protocolAt  = 9
	toAt        = 16
)

// read takes packets from the host's device until it is closed. Packets that are not IPv4, or not for a host of the
// lab, are dropped.
func (h *Host) read() {
	buf := make([]byte, mtu)
	for {
		n, err := h.tun.Read(buf)
		if err != nil {
			return
		}
		if n < headerBytes || buf[0]>>4 != 4 {
			continue
		}
		if to := h.lab.host(netip.AddrFrom4([4]byte(buf[toAt : toAt+4]))); to != nil {
			h.lab.link(h, to).take(buf[:n], buf[protocolAt])
		}
	}
}
