package simulator

import (
	"context"
	"net"
	"net/http"
)

// chunkHead is how many bytes a buffer leaves free for the head of an HTTP/1.1 chunk: its length in hexadecimal and CR LF.
const chunkHead = 10

// chunk makes one chunk of what stands in a buffer behind its first chunkHead bytes.
func chunk(b []byte) []byte {
	const digits = "0123456789abcdef"
	n := len(b) - chunkHead
	at := chunkHead - 2
	b[at], b[at+1] = '\r', '\n'
	for ok := true; ok; ok = n > 0 {
		at--
		b[at] = digits[n&15]
		n >>= 4
	}
	b = append(b, '\r', '\n')
	return b[at:]
}

// directKey finds the direct way to a connection in its requests' contexts.
type directKey struct{}

// withDirect is an http.Server's ConnContext: it opens the direct way where there is one.
func withDirect(ctx context.Context, c net.Conn) context.Context {
	if d := newDirect(c); d != nil {
		return context.WithValue(ctx, directKey{}, d)
	}
	return ctx
}

// directOf returns the direct way of a request's answer, nil if there is none. Net/http writes the head and the end of the answer, with
// nothing of its own in between: after a flush its buffers are empty, so that whole chunks may be written past it.
func directOf(r *http.Request, c *Config) *direct {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || c.Frames.SplitBytes > 0 || c.Frames.KeepAlive > 0 {
		return nil
	}
	d, _ := r.Context().Value(directKey{}).(*direct)
	return d
}
