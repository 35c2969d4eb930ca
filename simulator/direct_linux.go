package simulator

import (
	"net"
	"syscall"

	"github.com/spate-load/spate/internal/kernel"
)

// direct writes chunks to a connection without waiting. It belongs to whoever sends the answer under way.
type direct struct {
	conn net.Conn
	raw  syscall.RawConn
	call func(uintptr) // first, made once
	pen  *pen          // of what is sent
	buf  []byte        // what is sent, behind room for a chunk's head
	out  []byte        // of it, what is still to be written
	errn syscall.Errno
}

// newDirect returns nil for a connection that is not a plain socket.
func newDirect(c net.Conn) *direct {
	tcp, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	d := &direct{conn: c, raw: raw}
	d.call = d.first
	return d
}

// send seals one chunk and writes it, and returns the buffer. It returns false if that did not go through: flush then
// writes the rest, or knows the error.
func (d *direct) send(b []byte, p *pen) ([]byte, bool) {
	d.buf, d.pen = b, p
	// The socket's lock for writers is left alone, as is the poller's: nobody else writes while the answer is under
	// way, and nothing waits here.
	if err := d.raw.Control(d.call); err != nil {
		d.errn, d.buf = syscall.EPIPE, p.seal(b)
	}
	return d.buf, len(d.out) == 0 && d.errn == 0
}

// first seals the chunk, and is the system call that writes it. That never blocks.
func (d *direct) first(fd uintptr) {
	d.buf = d.pen.seal(d.buf)
	d.out = chunk(d.buf)
	switch n, errn := kernel.Send(int(fd), d.out); errn {
	case 0:
		d.out = d.out[n:]
	case syscall.EAGAIN:
	default:
		d.errn = errn
	}
}

// flush blocks until the rest of the last chunk is written. It fails if the client is gone.
func (d *direct) flush() error {
	if d.errn != 0 {
		return errGone
	}
	if len(d.out) == 0 {
		return nil
	}
	_, err := d.conn.Write(d.out)
	d.out = nil
	if err != nil {
		d.errn = syscall.EPIPE
		return errGone
	}
	return nil
}
