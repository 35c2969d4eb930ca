package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// dialer opens timestamped connections, and closes those still open when the client is closed.
type dialer struct {
	timeout   time.Duration
	tls       *tls.Config
	proxy     *proxy          // nil: none
	sources   *socket.Sources // nil: the system picks
	pins      allow.Pins
	pinned    atomic.Uint64 // number of dials to pinned hosts
	http2     bool
	alwaysNew bool            // each request opens a connection
	lifetime  context.Context // ends with the client
	end       context.CancelFunc
	dials     sync.WaitGroup
	sweep     socket.Sweepers
	mu        sync.Mutex
	open      map[*Conn]struct{} // nil: closed
}

func newDialer(timeout time.Duration, config *tls.Config, s *Settings, p *proxy) *dialer {
	socket.HoldStamping()
	d := &dialer{
		timeout: timeout, tls: config, proxy: p, sources: socket.NewSources(s.Sources), pins: s.Pins, http2: s.HTTP2,
		alwaysNew: s.New, open: make(map[*Conn]struct{}),
	}
	d.sweep.PacketTimes = s.PacketTimes
	d.lifetime, d.end = context.WithCancel(context.Background())
	return d
}

// forwarded reports whether requests to a URL go to the proxy in absolute form: HTTP/1.1 without TLS needs no tunnel.
func (d *dialer) forwarded(u *url.URL) bool { return d.proxy != nil && u.Scheme == "http" && !d.http2 }

// addressFor returns the address for requests to a URL: its host's, or that of the proxy that forwards them.
func (d *dialer) addressFor(u *url.URL) string {
	if d.forwarded(u) {
		return d.proxy.address
	}
	return dialAddress(u)
}

// dialAddress returns the host and port to dial for an endpoint.
func dialAddress(u *url.URL) string { return net.JoinHostPort(u.Hostname(), allow.PortOf(u)) }

// DialError is why a connection could not be opened.
type DialError struct {
	Class spatev1.ErrorClass
	err   error
}

func (e *DialError) Error() string { return e.err.Error() }
func (e *DialError) Unwrap() error { return e.err }

// dial connects to a URL's host, or to the proxy that forwards its requests, within the connect timeout, DNS and TLS
// included. It fails with a DialError, or with within's error if that context ended first.
func (d *dialer) dial(within context.Context, u *url.URL) (*Conn, error) {
	if !d.enter() {
		return nil, &DialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT, socket.ErrClosed}
	}
	defer d.dials.Done()
	p := &phases{start: clock.Now(), phase: "the TCP handshake"}
	ctx, cancel := context.WithTimeout(within, d.timeout)
	defer cancel()
	defer context.AfterFunc(d.lifetime, cancel)()
	addr := d.addressFor(u)
	c, err := d.connect(ctx, addr, u, p)
	if at, ok := within.Deadline(); err != nil && ok && time.Until(at) <= 0 {
		// net compares with the deadline itself and can be ahead of the context's timer; only the context tells which
		// of the two timeouts ended the dial
		<-within.Done()
	}
	switch {
	case err != nil && within.Err() != nil:
		return nil, within.Err()
	case err != nil:
		return nil, d.explain(ctx, addr, p, err)
	}
	c.openTimes = p.OpenTimes
	if !d.add(c) {
		c.Conn.Close()
		return nil, &DialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT, socket.ErrClosed}
	}
	return c, nil
}

// connect opens the socket to addr, through a tunnel of the proxy if that does not forward requests, and TLS over it
// for an https URL.
func (d *dialer) connect(ctx context.Context, addr string, u *url.URL, p *phases) (*Conn, error) {
	hop, tunnel := addr, d.proxy != nil && !d.forwarded(u)
	if tunnel {
		hop = d.proxy.address
	}
	s, err := d.dialTCP(p.watch(ctx), hop)
	if err != nil {
		return nil, err
	}
	if tunnel {
		p.phase = "the proxy's CONNECT"
		if err := d.proxy.tunnel(ctx, s, addr); err != nil {
			s.Close()
			return nil, err
		}
	}
	p.connected()
	c := &Conn{Conn: s, Socket: s, rtt: s.RTT, remove: d.remove, httpAgreed: true}
	if d.http2 {
		c.frames, c.readEnded = newHTTP2Frames(), make(chan struct{})
	}
	if u.Scheme != "https" {
		return c, nil
	}
	secured, err := d.handshake(ctx, s, addr)
	if err != nil {
		s.Close()
		return nil, err
	}
	c.Conn, c.httpAgreed = secured, secured.ConnectionState().NegotiatedProtocol != ""
	p.secured()
	return c, nil
}

// dialTCP opens a TCP connection to a host. For a pinned host it tries the pinned addresses, starting with the next one
// each time, until one of them accepts.
func (d *dialer) dialTCP(ctx context.Context, addr string) (*socket.Socket, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	addresses, pinned := d.pins.Of(host)
	if !pinned {
		return d.sweep.Dial(ctx, d.sources, addr)
	}
	first := int(d.pinned.Add(1) - 1)
	for i := range addresses {
		a := addresses[(first+i)%len(addresses)]
		var c *socket.Socket
		if c, err = d.dialWithin(ctx, net.JoinHostPort(a.String(), port), len(addresses)-i); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// dialWithin opens a TCP connection. It divides the time left evenly by the number of addresses left to try.
func (d *dialer) dialWithin(ctx context.Context, addr string, left int) (*socket.Socket, error) {
	if at, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(at)/time.Duration(left))
		defer cancel()
	}
	return d.sweep.Dial(ctx, d.sources, addr)
}

// handshake performs the TLS handshake over a socket. If that fails, the error is a DialError.
func (d *dialer) handshake(ctx context.Context, s *socket.Socket, addr string) (*tls.Conn, error) {
	config := d.tls.Clone()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	config.ServerName = cmp.Or(config.ServerName, host)
	t := tls.Client(s, config)
	if err = t.HandshakeContext(ctx); refusedProtocol(err) {
		err = errOnlyHTTP2
		if d.http2 {
			err = errNoHTTP2
		}
	}
	if err == nil && d.http2 && t.ConnectionState().NegotiatedProtocol != "h2" {
		err = errNoHTTP2
	}
	if err != nil {
		return nil, &DialError{spatev1.ErrorClass_ERROR_CLASS_TLS, withAdvice(err, config.ServerName)}
	}
	return t, nil
}

// explain returns why there is no connection to addr.
func (d *dialer) explain(ctx context.Context, addr string, p *phases, err error) *DialError {
	var known *DialError
	switch {
	case d.lifetime.Err() != nil:
		return &DialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT, socket.ErrClosed}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &DialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT,
			fmt.Errorf("connect to %s: connect timeout after %v, during %s", addr, d.timeout, p.current())}
	case errors.As(err, &known):
		return &DialError{known.Class, fmt.Errorf("TLS with %s: %w", addr, known.err)}
	}
	return &DialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT,
		fmt.Errorf("connect to %s: %w", addr, withAdvice(innerError(err), ""))}
}

// innerError strips net's operation and address, which the message contains already, and the name of a system call.
func innerError(err error) error {
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		err = operation.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err
	}
	return err
}

// enter registers a dial, or a goroutine on a connection, for close to wait for. It returns false if the dialer is
// closed.
func (d *dialer) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		return false
	}
	d.dials.Add(1)
	return true
}

// add registers an open connection. It returns false if the dialer is closed.
func (d *dialer) add(c *Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		return false
	}
	d.open[c] = struct{}{}
	return true
}

func (d *dialer) remove(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}

// close ends all dials, closes all connections and waits for everything that enter has registered.
func (d *dialer) close() {
	d.end()
	d.mu.Lock()
	left := d.open
	d.open = nil
	d.mu.Unlock()
	for c := range left {
		c.Socket.Close() // below TLS, whose close message could block
	}
	d.dials.Wait()
	d.sweep.Close()
}

// OpenTimes is how long a connection took to open.
type OpenTimes struct {
	Total time.Duration // DNS, TCP and TLS together
	DNS   time.Duration // 0: no name to look up
	TCP   time.Duration // with a proxy's CONNECT
	TLS   time.Duration // 0: no TLS
}

// phases records the times of the phases of opening a connection, which follow each other.
type phases struct {
	OpenTimes
	phase       string // current phase, in words
	start       clock.Instant
	ended       clock.Instant // end of the last phase
	lookupStart atomic.Int64  // start of the name lookup; 0: none
	lookupTime  atomic.Int64  // duration of the name lookup
}

// watch returns a context with which a name lookup records its times. package net may continue a lookup after its
// caller has returned, hence the atomics.
func (p *phases) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { p.lookupStart.Store(int64(clock.Now())) },
		DNSDone:  func(httptrace.DNSDoneInfo) { p.lookupTime.Store(int64(clock.Now()) - p.lookupStart.Load()) },
	})
}

// connected records the end of the name lookup and of TCP.
func (p *phases) connected() {
	p.ended, p.phase = clock.Now(), "the TLS handshake"
	p.Total, p.DNS = p.ended.Sub(p.start), time.Duration(p.lookupTime.Load())
	p.TCP = p.Total - p.DNS
}

// secured records the end of TLS.
func (p *phases) secured() {
	now := clock.Now()
	p.TLS = now.Sub(p.ended)
	p.Total = now.Sub(p.start)
}

// current returns the current phase, in words.
func (p *phases) current() string {
	if p.lookupStart.Load() != 0 && p.lookupTime.Load() == 0 {
		return "the name lookup"
	}
	return p.phase
}
