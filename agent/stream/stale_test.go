package stream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// lastConn remembers the connection of a client's last request.
type lastConn struct {
	wire.User
	conn *wire.Conn
}

// watchConns makes a client remember its connections.
func watchConns(c *Client) *lastConn {
	last := new(lastConn)
	c.send = func(ctx context.Context, q *wire.Outgoing, user wire.User) (*http.Response, error) {
		last.User = user
		return c.pool.RoundTrip(ctx, q, last)
	}
	return last
}

// GotConn implements wire.User.
func (l *lastConn) GotConn(c *wire.Conn, reused bool) *wire.RequestIO {
	l.conn = c
	return l.User.GotConn(c, reused)
}

// A kept connection that ends before a byte of the next request is written fails no request.
func TestKeptConnectionThatEndedWhileIdle(t *testing.T) {
	s := testserver.NewRaw(t, answer(chunkedHead, chunk(tokenFrame("a")), chunk(doneFrame), lastChunk))
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	last := watchConns(c)
	var o Observation
	for i := range 300 {
		c.Do(t.Context(), Request{Body: body(c)}, &o)
		if o.Err != nil {
			t.Fatalf("request %d: %v", i, o.Err)
		}
		if i%3 == 0 {
			continue // so that some connections are kept
		}
		last.conn.Socket.Close()
	}
}

// A server closes connections between responses, before, during or after the next request. No request reaches it twice,
// and each failure is a cut stream of a request that was sent.
func TestNoRequestIsSentTwice(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		q, err := http.ReadRequest(r)
		for n := 0; err == nil; n++ {
			io.Copy(io.Discard, q.Body)
			id := q.Header.Get("X-Request-Id")
			mu.Lock()
			seen[id]++
			mu.Unlock()
			io.WriteString(c, chunkedHead+chunk(tokenFrame("a"))+chunk(doneFrame)+lastChunk)
			if id[len(id)-1] < '4' && n > 0 {
				return
			}
			q, err = http.ReadRequest(r)
		}
	})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			var o Observation
			for i := range 250 {
				c.Do(t.Context(), Request{ID: strconv.Itoa(1000*g + i), Body: body(c)}, &o)
				if o.Err != nil && (o.Err.Class != spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM || o.Sent == 0) {
					t.Errorf("%v, sent %d", o.Err, o.Sent)
				}
			}
		})
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < 250 {
		t.Errorf("only %d requests were seen", len(seen))
	}
	for id, n := range seen {
		if n > 1 {
			t.Errorf("request %s was seen %d times", id, n)
		}
	}
}

// Once a request has ended, its body belongs to the caller again, even if something still writes the first attempt.
func TestBodyOfAnAbandonedAttempt(t *testing.T) {
	c := newTestClient(t, Config{Endpoints: []string{"http://127.0.0.1:1"}})
	var bodies []io.Reader
	c.send = func(_ context.Context, q *wire.Outgoing, user wire.User) (*http.Response, error) {
		bodies = append(bodies, q.Body)
		user.GotConn(&wire.Conn{}, len(bodies) == 1) // first a kept connection, then a new one
		return nil, io.EOF
	}
	ask(t, c)
	if len(bodies) != 2 {
		t.Fatalf("%d attempts", len(bodies))
	}
	for i, b := range bodies {
		if n, _ := b.Read(make([]byte, 1)); n > 0 {
			t.Errorf("attempt %d still reads the caller's memory", i)
		}
	}
}

// A connection that was closed while idle fails no request.
func TestKeptConnectionThatEndedByHTTP2(t *testing.T) {
	p := testserver.NewPeer(t, "127.0.0.1:0", false, true, nil, reply)
	c := newTestClient(t, Config{Endpoints: []string{p.URL}, Connection: wire.Settings{HTTP2: true}})
	last := watchConns(c)
	for i := range 100 {
		if o := ask(t, c); o.Err != nil {
			t.Fatalf("request %d: %v", i, o.Err)
		}
		last.conn.Socket.Close()
	}
}
