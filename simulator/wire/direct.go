package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
)

// ChunkHead is how many bytes a buffer leaves free for the head of an HTTP/1.1 chunk: its length in hexadecimal and CR
// LF.
const ChunkHead = 10

// chunk turns the bytes of a buffer after its first chunkHead bytes into one chunk.
func chunk(b []byte) []byte {
	const digits = "0123456789abcdef"
	n := len(b) - ChunkHead
	at := ChunkHead - 2
	b[at], b[at+1] = '\r', '\n'
	for ok := true; ok; ok = n > 0 {
		at--
		b[at] = digits[n&15]
		n >>= 4
	}
	b = append(b, '\r', '\n')
	return b[at:]
}

// Sealer completes a buffer with the time at which it is sent.
type Sealer interface {
	// Seal reads the time and returns the completed buffer. It is called just before the system call.
	Seal(b []byte) []byte
}

// connection is the server's information about a request's connection.
type connection struct {
	direct   *Direct      // nil: frames cannot be sent past net/http
	arrivals *arrivalConn // nil: arrival times are not recorded
}

// connectionKey is the key of the connection in the contexts of its requests.
type connectionKey struct{}

// WithConnection implements http.Server's ConnContext.
func WithConnection(ctx context.Context, c net.Conn) context.Context {
	known := &connection{direct: newDirect(c)}
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	known.arrivals, _ = c.(*arrivalConn)
	return context.WithValue(ctx, connectionKey{}, known)
}

// connectionOf returns the information about a request's connection.
func connectionOf(r *http.Request) *connection {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
		return c
	}
	return &connection{}
}

// DirectOf returns the direct writer of a request's answer, or nil if there is none. net/http writes the head and the
// end of the answer, and nothing in between: after a flush its buffers are empty, so that whole chunks may be written
// past it.
func DirectOf(r *http.Request) *Direct {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 {
		return nil
	}
	return connectionOf(r).direct
}

// ErrGone ends a reply early because the client left or the simulator closes.
var ErrGone = errors.New("simulator: the client left")
