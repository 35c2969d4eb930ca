package simulator

import (
	"net"
	"syscall"

	"github.com/spate-load/spate/internal/kernel"
)

// direct writes chunks to a connection without blocking. It belongs to the sender of the current answer.
type direct struct {
	conn   net.Conn
	raw    syscall.RawConn
	call   func(uintptr) // first, allocated once
	writer *frameWriter  // of the chunk being sent
	buf    []byte        // the chunk being sent, behind room for its head
	out    []byte        // the part of buf that is still to be written
	errn   syscall.Errno
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

// send seals one chunk, writes it, and returns the buffer. It returns false if not all was written: flush then writes
// the rest, or returns the error.
func (d *direct) send(b []byte, p *frameWriter) ([]byte, bool) {
	d.buf, d.writer = b, p
	// This bypasses the socket's write lock and the poller: nobody else writes during the answer, and nothing waits
	// here.
	if err := d.raw.Control(d.call); err != nil {
		d.errn, d.buf = syscall.EPIPE, p.seal(b)
	}
	return d.buf, len(d.out) == 0 && d.errn == 0
}

// first seals the chunk and writes it with one system call, which never blocks.
func (d *direct) first(fd uintptr) {
	d.buf = d.writer.seal(d.buf)
	d.out = chunk(d.buf)
	switch n, errn := kernel.Send(int(fd), d.out); errn {
	case 0:
		d.out = d.out[n:]
	case syscall.EAGAIN:
	default:
		d.errn = errn
	}
}

// flush blocks until the rest of the last chunk is written. It returns errGone if the client has left.
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
