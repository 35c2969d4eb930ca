package testserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
)

// Raw serves each connection with a function of the test, which controls every byte.
type Raw struct {
	net.Listener
	URL string // http://host:port
}

// NewRaw starts a server. It is closed when the test ends; serve has 30 s for a connection, which is closed after it.
func NewRaw(t testing.TB, serve func(net.Conn, *bufio.Reader)) *Raw {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(30 * time.Second))
				serve(c, bufio.NewReader(c))
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return &Raw{Listener: l, URL: "http://" + l.Addr().String()}
}

// TakeRequest reads one request. It returns false if there is none.
func TakeRequest(r *bufio.Reader) bool {
	q, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, q.Body)
	return err == nil
}

// OpenSocket returns a socket and its peer. Both are closed when the test ends.
func OpenSocket(t *testing.T) (near *socket.Socket, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := new(socket.Sweepers)
	if near, err = s.Dial(t.Context(), nil, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close(); s.Close() })
	return near, far
}
