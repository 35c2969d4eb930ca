package wire

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/url"
	"runtime"
	"testing"

	"github.com/spate-load/spate/agent/stream/testserver"
)

// closingConn is a connection that the peer closes while the first bytes of a request are being written.
type closingConn struct {
	net.Conn
	begun, closed chan struct{}
}

func (h closingConn) Read([]byte) (int, error) { <-h.begun; return 0, io.EOF }

func (h closingConn) Write([]byte) (int, error) {
	close(h.begun)
	<-h.closed
	for range 1000 { // the kernel had accepted some bytes before the close
		runtime.Gosched()
	}
	return 5, net.ErrClosed
}

func (h closingConn) Close() error { close(h.closed); return h.Conn.Close() }

// When a long request has failed, nothing writes it any more. Else it might be retried although the server has a part
// of it.
func TestFailedRequestIsNotBeingWritten(t *testing.T) {
	one, _ := testserver.OpenSocket(t)
	u := &url.URL{Scheme: "http", Host: "a"}
	d := newTestPool(t, Settings{}).dialer
	p := &http1Pool{dialer: d}
	c := &http1Conn{
		Conn:   &Conn{Conn: closingConn{one, make(chan struct{}), make(chan struct{})}, Socket: one, remove: d.remove},
		origin: origin{"http", "a"},
	}
	c.interrupted, c.reader = c.interrupt, bufio.NewReader(c)
	p.idle.put(c.origin, c)
	body, user := io.NopCloser(bytes.NewReader(make([]byte, 4*writeBuffer))), new(keepingUser)
	//nolint:bodyclose // there is no response
	_, err := p.roundTrip(t.Context(), &Outgoing{Method: "POST", URL: u, Body: body, Length: 4 * writeBuffer}, user)
	if w := c.StateOf(user.io); err == nil || w.Written != 5 {
		t.Errorf("%v, %d bytes were written", err, w.Written)
	}
}
