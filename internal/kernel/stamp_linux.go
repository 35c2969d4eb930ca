package kernel

import (
	"encoding/binary"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// AskForStamps has the kernel stamp what a socket receives. Asked before it connects or listens, its first byte is
// stamped, and so are those of connections that it accepts later.
func AskForStamps(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("ask for receive stamps: %w", err)
	}
	return nil
}

// HoldStamping keeps stamping switched on in the kernel. It goes on with the first socket that asks for it, but some
// time later, and off with the last: one socket that stays open for the life of the process spares all others that gap.
// Without it reads lack stamps now and then, which is counted, so a failure here is none of the caller's business.
var HoldStamping = sync.OnceFunc(func() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	MapStamps()
})

// wall maps stamps to instants. One for all sockets: a step that one of them notices, all of them know.
var wall = sync.OnceValue(clock.NewWall)

// MapStamps begins to map stamps to instants: those taken before are not known.
func MapStamps() { wall() }

// stampIn finds the receive stamp among control messages, on the wall clock. 0: there is none.
func stampIn(control []byte) int64 {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0
		}
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_TIMESTAMPNS {
			return nanoseconds(data)
		}
		control = rest
	}
	return 0
}

// nanoseconds decodes a struct timespec, which is two longs.
func nanoseconds(timespec []byte) int64 {
	switch len(timespec) {
	case 16:
		return int64(binary.NativeEndian.Uint64(timespec))*1e9 + int64(binary.NativeEndian.Uint64(timespec[8:]))
	case 8:
		return int64(binary.NativeEndian.Uint32(timespec))*1e9 + int64(binary.NativeEndian.Uint32(timespec[4:]))
	}
	return 0
}
