package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// dialer opens stamped connections and closes those that are left.
type dialer struct {
	timeout time.Duration
	tls     *tls.Config
	life    context.Context // ends with the client
	end     context.CancelFunc
	dials   sync.WaitGroup
	mu      sync.Mutex
	open    map[*conn]struct{} // nil: closed
}

func newDialer(timeout time.Duration, config *tls.Config) *dialer {
	holdStamping()
	d := &dialer{timeout: timeout, tls: config, open: make(map[*conn]struct{})}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// dialError is why there is no connection.
type dialError struct {
	class spatev1.ErrorClass
	err   error
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// plain opens a connection without TLS, for Transport.DialContext.
func (d *dialer) plain(ctx context.Context, _, addr string) (net.Conn, error) {
	return d.dial(ctx, addr, false)
}

// secure opens a connection with TLS, for Transport.DialTLSContext.
func (d *dialer) secure(ctx context.Context, _, addr string) (net.Conn, error) {
	return d.dial(ctx, addr, true)
}

// errClosed is what requests of a closed client fail with.
var errClosed = errors.New("the client is closed")

// dial connects within the connect timeout, DNS and TLS included. It fails with a dialError.
func (d *dialer) dial(ctx context.Context, addr string, secure bool) (net.Conn, error) {
	if !d.enter() {
		return nil, &dialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT, errClosed}
	}
	defer d.dials.Done()
	begun := clock.Now()
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	c, err := d.connect(ctx, addr, secure)
	if err != nil {
		return nil, d.explain(ctx, addr, err)
	}
	c.opened = clock.Now().Sub(begun)
	if !d.keep(c) {
		c.Conn.Close()
		return nil, &dialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT, errClosed}
	}
	return c, nil
}

// connect opens the socket and, if asked, TLS over it.
func (d *dialer) connect(ctx context.Context, addr string, secure bool) (*conn, error) {
	tcp, err := (&net.Dialer{Control: askForStamps}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s, err := newSocket(tcp)
	if err != nil {
		tcp.Close()
		return nil, err
	}
	if !secure {
		return &conn{Conn: s, socket: s, rtt: s.rtt, forget: d.forget}, nil
	}
	t, err := d.handshake(ctx, s, addr)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &conn{Conn: t, socket: s, rtt: s.rtt, forget: d.forget}, nil
}

// handshake puts TLS over a socket. It fails with a dialError.
func (d *dialer) handshake(ctx context.Context, s *socket, addr string) (*tls.Conn, error) {
	config := d.tls.Clone()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	t := tls.Client(s, config)
	err = t.HandshakeContext(ctx)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) {
		err = fmt.Errorf("%w: does the server speak plain http?", err)
	}
	if err != nil {
		return nil, &dialError{spatev1.ErrorClass_ERROR_CLASS_TLS, err}
	}
	return t, nil
}

// explain says why there is no connection to addr.
func (d *dialer) explain(ctx context.Context, addr string, err error) *dialError {
	var known *dialError
	switch {
	case d.life.Err() != nil:
		return &dialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT, errClosed}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &dialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT,
			fmt.Errorf("connect to %s: connect timeout after %v", addr, d.timeout)}
	case errors.As(err, &known):
		return &dialError{known.class, fmt.Errorf("TLS with %s: %w", addr, known.err)}
	}
	return &dialError{spatev1.ErrorClass_ERROR_CLASS_CONNECT, fmt.Errorf("connect to %s: %w", addr, cause(err))}
}

// cause leaves out what net says of the operation and the address, which the message says already. DNS errors stay whole: they
// name the server that was asked.
func cause(err error) error {
	var operation *net.OpError
	var lookup *net.DNSError
	if errors.As(err, &operation) && !errors.As(err, &lookup) {
		return operation.Err
	}
	return err
}

// enter counts a dial in, unless the dialer is closed.
func (d *dialer) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		return false
	}
	d.dials.Add(1)
	return true
}

// keep remembers an open connection, unless the dialer is closed.
func (d *dialer) keep(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		return false
	}
	d.open[c] = struct{}{}
	return true
}

func (d *dialer) forget(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}

// close ends all dials and closes all connections.
func (d *dialer) close() {
	d.end()
	d.mu.Lock()
	left := d.open
	d.open = nil
	d.mu.Unlock()
	for c := range left {
		c.socket.Close() // below TLS, whose goodbye could block
	}
	d.dials.Wait()
}
