package stream

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"runtime"
	"testing"
)

// hangsUp is a connection that the peer closes while the first bytes of a request are being written.
type hangsUp struct {
	*socket
	begun chan struct{}
}

func (h hangsUp) Read([]byte) (int, error) { <-h.begun; return 0, io.EOF }

func (h hangsUp) Write([]byte) (int, error) {
	close(h.begun)
	<-h.gone
	for range 1000 { // the kernel had accepted some bytes before the close
		runtime.Gosched()
	}
	return 5, net.ErrClosed
}

// lender is a borrower that keeps the record of its request.
type lender struct{ *wire }

func (l *lender) lent(c *conn, _ bool) *wire { l.wire = new(wire); c.lend(l.wire); return l.wire }

// When a long request has failed, nothing writes it any more. Else it might be retried although the server has a part
// of it.
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
	//nolint:bodyclose // there is no response
	_, err := p.roundTrip(t.Context(), &outgoing{method: "POST", url: u, body: body, length: 4 * writeBuffer}, by)
	if w := c.record(by.wire); err == nil || w.written != 5 {
		t.Errorf("%v, %d bytes were written", err, w.written)
	}
}
