//go:build !linux

package stream

import (
	"net"
	"syscall"

	"github.com/spate-load/spate/clock"
)

// stamps has none to give here: every read is timed by the program's clock, and counted so.
type stamps struct{}

func holdStamping() {}

func askForStamps(_, _ string, _ syscall.RawConn) error { return nil }

func newSocket(c net.Conn) (*socket, error) { return &socket{Conn: c}, nil }

func (stamps) read(c net.Conn, p []byte) (int, error) { return c.Read(p) }

func (stamps) write(c net.Conn, p []byte) (int, error) { return c.Write(p) }

// unread does not know.
func (stamps) unread() bool { return false }

func (stamps) when() (at, seen clock.Instant, stamped bool) {
	now := clock.Now()
	return now, now, false
}
