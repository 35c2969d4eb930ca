package misbehaving

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wire is a connection to a client that sends the exact bytes of an answer. If the client has disconnected, writes do
// nothing.
type wire struct {
	net.Conn
	tcp    *net.TCPConn // below TLS, if there is any
	reader *bufio.Reader
	closed bool
	id     string    // of the request
	trap   string    // an address that must not be called
	of     *endpoint // the endpoint that accepted the connection
}

// send writes some bytes, and reports whether the client took them.
func (w *wire) send(text string) bool {
	_, err := io.WriteString(w, text)
	return err == nil
}

const (
	eventStream = "Content-Type: text/event-stream\r\n"
	okLine      = "HTTP/1.1 200 OK\r\n"
	chunkedHead = okLine + eventStream + "Transfer-Encoding: chunked\r\n\r\n"
	endlessHead = okLine + eventStream + "\r\n" // the body continues to the end of the connection
	lastChunk   = "0\r\n\r\n"
)

// chunk returns a chunk of a body.
func chunk(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
}

// sized returns an answer in one piece.
func sized(status, kind, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, kind, len(body), body)
}

// fin closes the connection properly.
func (w *wire) fin() {
	w.closed = true
	_ = w.Close() // The client may have closed it before.
}

// reset closes the connection at once: the client sees a reset.
func (w *wire) reset() {
	_ = w.tcp.SetLinger(0) // It may be closed.
	w.closed = true
	_ = w.tcp.Close() // As above.
}

// hang does nothing more until the client disconnects.
func (w *wire) hang() {
	_, _ = io.Copy(io.Discard, w) // It ends when the client disconnects.
	w.fin()
}

// flood sends a text again and again until the client disconnects.
func (w *wire) flood(text string) {
	block := strings.Repeat(text, max(1, 64<<10/len(text)))
	for w.send(block) {
	}
	w.fin()
}

// wait does nothing until the test ends.
func (w *wire) wait() { <-w.of.ended }

// pause waits a tenth of a second, like a slow server.
func (w *wire) pause() {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-w.of.ended:
	}
}

// first reports whether the connection is the endpoint's first.
func (w *wire) first() bool { return w.of.met.CompareAndSwap(false, true) }

// leave accepts no more connections.
func (w *wire) leave() { _ = w.of.listen.Close() } // It may be closed.

// endpoint is a server for one case, on its own port.
type endpoint struct {
	url    string
	listen net.Listener
	ended  chan struct{}
	met    atomic.Bool // whether a connection has come
	served sync.WaitGroup
	mu     sync.Mutex
	open   map[net.Conn]struct{} // nil: the endpoint is closed
}

// serve starts an endpoint. It calls handle for each connection, each on its own goroutine. It ends with the test.
func serve(t *testing.T, secure *tls.Config, handle func(w *wire)) *endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{url: "http://" + listener.Addr().String(), listen: listener, ended: make(chan struct{}),
		open: map[net.Conn]struct{}{}}
	if secure != nil {
		e.url = "https://" + listener.Addr().String()
	}
	e.served.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			e.served.Go(func() { e.handle(c, secure, handle) })
		}
	})
	t.Cleanup(func() {
		close(e.ended)
		_ = listener.Close() // It can fail only because it is closed already.
		e.mu.Lock()
		for c := range e.open {
			_ = c.Close() // As above.
		}
		e.open = nil
		e.mu.Unlock()
		e.served.Wait()
	})
	return e
}

func (e *endpoint) handle(c net.Conn, secure *tls.Config, handle func(w *wire)) {
	defer func() { _ = c.Close() }() // It may be closed.
	e.mu.Lock()
	if e.open == nil {
		e.mu.Unlock()
		return
	}
	e.open[c] = struct{}{}
	e.mu.Unlock()
	w := &wire{Conn: c, tcp: c.(*net.TCPConn), of: e}
	if secure != nil {
		w.Conn = tls.Server(c, secure)
	}
	w.reader = bufio.NewReader(w.Conn)
	handle(w)
	e.mu.Lock()
	delete(e.open, c)
	e.mu.Unlock()
}

// answering returns a handler that answers each request to generate in the same way. It answers questions about the
// server like a server that does not support them.
func answering(answer func(w *wire)) func(*wire) {
	return asked(func(w *wire, method string) {
		if method == http.MethodPost {
			answer(w)
			return
		}
		w.send(sized("404 Not Found", "application/json", `{"error":{"message":"not found"}}`))
	})
}

// asked returns a handler that answers every request.
func asked(answer func(w *wire, method string)) func(*wire) {
	return func(w *wire) {
		for !w.closed {
			request, err := http.ReadRequest(w.reader)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			w.id = request.Header.Get("X-Request-Id")
			answer(w, request.Method)
		}
	}
}
