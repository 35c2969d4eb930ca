package wire

import (
	"net"
	"syscall"

	"github.com/spate-load/spate/internal/kernel"
)

// Direct writes chunks to a connection without blocking. It belongs to the sender of the current answer.
type Direct struct {
	conn   net.Conn
	raw    syscall.RawConn
	call   func(uintptr) // first, allocated once
	writer Sealer        // of the chunk being sent
	buf    []byte        // the chunk being sent, behind room for its head
	out    []byte        // the part of buf that is still to be written
	errn   syscall.Errno
}

// newDirect returns nil for a connection that is not a plain socket.
func newDirect(c net.Conn) *Direct {
	tcp, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	d := &Direct{conn: c, raw: raw}
	d.call = d.first
	return d
}

// Send seals one chunk, writes it, and returns the buffer. It returns false if not all was written: flush then writes
// the rest, or returns the error.
func (d *Direct) Send(b []byte, p Sealer) ([]byte, bool) {
	d.buf, d.writer = b, p
	// This bypasses the socket's write lock and the poller: nobody else writes during the answer, and nothing waits
	// here.
	if err := d.raw.Control(d.call); err != nil {
		d.errn, d.buf = syscall.EPIPE, p.Seal(b)
	}
	return d.buf, len(d.out) == 0 && d.errn == 0
}

// first seals the chunk and writes it with one system call, which never blocks.
func (d *Direct) first(fd uintptr) {
	d.buf = d.writer.Seal(d.buf)
	d.out = chunk(d.buf)
	switch n, errn := kernel.Send(int(fd), d.out); errn {
	case 0:
		d.out = d.out[n:]
	case syscall.EAGAIN:
	default:
		d.errn = errn
	}
}

// Flush blocks until the rest of the last chunk is written. It returns errGone if the client has left.
func (d *Direct) Flush() error {
	if d.errn != 0 {
		return ErrGone
	}
	if len(d.out) == 0 {
		return nil
	}
	_, err := d.conn.Write(d.out)
	d.out = nil
	if err != nil {
		d.errn = syscall.EPIPE
		return ErrGone
	}
	return nil
}
