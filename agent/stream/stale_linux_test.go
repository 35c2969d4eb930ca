package stream

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"runtime"
	"testing"
)

// hangsUp is a connection whose other side ends it while the first bytes of a request are on their way.
type hangsUp struct {
	*socket
	begun chan struct{}
}

func (h hangsUp) Read([]byte) (int, error) { <-h.begun; return 0, io.EOF }

func (h hangsUp) Write([]byte) (int, error) {
	close(h.begun)
	<-h.gone
	for range 1000 { // the kernel had taken some before it was closed
		runtime.Gosched()
	}
	return 5, net.ErrClosed
}

// lender keeps what a request does on its connection.
type lender struct{ *wire }

func (l *lender) lent(c *conn, _ bool) *wire { l.wire = new(wire); c.lend(l.wire); return l.wire }

// A long request that fails is not being written any more: else it might be sent again, though its server has some of
// it.
func TestFailedRequestIsNotBeingWritten(t *testing.T) {
	one, _ := newSockets(t)
	u := &url.URL{Scheme: "http", Host: "a"}
	client := newTestClient(t, Config{Endpoints: []string{"http://127.0.0.1:1"}})
	p := newHTTP1Pool(client.dialer, false)
	c := &http1Conn{conn: &conn{Conn: hangsUp{one, make(chan struct{})}, socket: one, forget: client.dialer.forget},
		place: place{"http", "a"}}
	c.interrupted, c.reader = c.interrupt, bufio.NewReader(c)
	p.idle.put(c.place, c)
	body, by := &payload{left: make([]byte, 4*writeBuffer)}, new(lender)
	// nolint:bodyclose // it fails
	_, err := p.roundTrip(t.Context(), &outgoing{method: "POST", url: u, body: body, length: 4 * writeBuffer}, by)
	if w := c.record(by.wire); err == nil || w.written != 5 {
		t.Errorf("%v, %d bytes were written", err, w.written)
	}
}
