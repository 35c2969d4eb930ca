package stream

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"runtime"
	"testing"

	"github.com/spate-load/spate/agent/stream/socket"
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

// openSocket returns a socket and its peer.
func openSocket(t *testing.T) (near *socket.Socket, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	s := new(socket.Sweepers)
	if near, err = socket.Wrap(c, s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close(); s.Close() })
	return near, far
}

// keepingUser is a connUser that keeps the requestIO of its request.
type keepingUser struct{ io *requestIO }

func (u *keepingUser) gotConn(c *conn, _ bool) *requestIO {
	u.io = new(requestIO)
	c.startRequest(u.io)
	return u.io
}

// When a long request has failed, nothing writes it any more. Else it might be retried although the server has a part
// of it.
func TestFailedRequestIsNotBeingWritten(t *testing.T) {
	one, _ := openSocket(t)
	u := &url.URL{Scheme: "http", Host: "a"}
	client := newTestClient(t, Config{Endpoints: []string{"http://127.0.0.1:1"}})
	p := newHTTP1Pool(client.dialer, false)
	c := &http1Conn{conn: &conn{Conn: closingConn{one, make(chan struct{}), make(chan struct{})}, socket: one, remove: client.dialer.remove},
		origin: origin{"http", "a"}}
	c.interrupted, c.reader = c.interrupt, bufio.NewReader(c)
	p.idle.put(c.origin, c)
	body, user := &payload{left: make([]byte, 4*writeBuffer)}, new(keepingUser)
	//nolint:bodyclose // there is no response
	_, err := p.roundTrip(t.Context(), &outgoing{method: "POST", url: u, body: body, length: 4 * writeBuffer}, user)
	if w := c.stateOf(user.io); err == nil || w.written != 5 {
		t.Errorf("%v, %d bytes were written", err, w.written)
	}
}
