package membership

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// air is an in-memory network for tests in virtual time. Everything arrives at once.
type air struct {
	mu      sync.Mutex
	ports   map[string]*port
	largest int
	sent    traffic
	broken  bool
}

// traffic is what was sent.
type traffic struct{ datagrams, bytes, connections int }

func (t traffic) minus(o traffic) traffic {
	return traffic{t.datagrams - o.datagrams, t.bytes - o.bytes, t.connections - o.connections}
}

// traffic returns what was sent so far.
func (a *air) traffic() traffic {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

func newAir() *air { return &air{ports: map[string]*port{}} }

// port is one member's port in the air.
type port struct {
	air     *air
	address string
	packets chan *memberlist.Packet
	streams chan net.Conn
}

// largestSeen returns the size of the largest datagram so far, in bytes.
func (a *air) largestSeen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.largest
}

// open opens a port. It is a network.
func (a *air) open(_ context.Context, mc *memberlist.Config) (memberlist.NodeAwareTransport, error) {
	p := &port{
		air: a, address: net.JoinHostPort(mc.AdvertiseAddr, strconv.Itoa(mc.AdvertisePort)),
		packets: make(chan *memberlist.Packet, 4096), streams: make(chan net.Conn, 4096),
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ports[p.address] = p
	return p, nil
}

// port returns the port at an address, nil if none can be reached.
func (a *air) port(address string) *port {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken {
		return nil
	}
	return a.ports[address]
}

// set breaks the air, so that nothing arrives, or repairs it.
func (a *air) set(broken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = broken
}

func (p *port) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return net.ParseIP(ip).To4(), port, nil
}

func (p *port) WriteTo(b []byte, address string) (time.Time, error) {
	return p.WriteToAddress(b, memberlist.Address{Addr: address})
}

// WriteToAddress delivers a datagram, or drops it if no port has the address.
func (p *port) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	now := time.Now()
	p.air.mu.Lock()
	p.air.largest = max(p.air.largest, len(b))
	p.air.sent.datagrams++
	p.air.sent.bytes += len(b)
	p.air.mu.Unlock()
	from, err := net.ResolveUDPAddr("udp", p.address)
	if to := p.air.port(a.Addr); to != nil && err == nil {
		to.packets <- &memberlist.Packet{Buf: append([]byte(nil), b...), From: from, Timestamp: now}
	}
	return now, err
}

func (p *port) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	return p.DialAddressTimeout(memberlist.Address{Addr: address}, timeout)
}

// DialAddressTimeout connects, or fails at once if no port has the address.
func (p *port) DialAddressTimeout(a memberlist.Address, _ time.Duration) (net.Conn, error) {
	to := p.air.port(a.Addr)
	if to == nil {
		return nil, errors.New("connection refused")
	}
	p.air.mu.Lock()
	p.air.sent.connections++
	p.air.mu.Unlock()
	near, far := net.Pipe()
	to.streams <- far
	return near, nil
}

func (p *port) PacketCh() <-chan *memberlist.Packet { return p.packets }

func (p *port) StreamCh() <-chan net.Conn { return p.streams }

func (p *port) IngestPacket(net.Conn, net.Addr, time.Time, bool) error { return errors.ErrUnsupported }

func (p *port) IngestStream(net.Conn) error { return errors.ErrUnsupported }

// Shutdown removes the port from the air.
func (p *port) Shutdown() error {
	p.air.mu.Lock()
	defer p.air.mu.Unlock()
	delete(p.air.ports, p.address)
	return nil
}
