package kernel

import (
	"encoding/binary"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// AskForStamps makes the kernel timestamp what a socket receives. Called before a socket connects or listens, it covers
// the first byte, and also connections that the socket accepts later.
func AskForStamps(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("enable receive timestamps: %w", err)
	}
	return nil
}

// HoldStamping keeps timestamping enabled in the kernel. The kernel enables it with a delay after the first socket asks
// for it, and disables it with the last such socket. One socket that stays open for the life of the process spares all
// others that delay. Without it some reads lack a timestamp, and those are counted, so HoldStamping returns no error.
var HoldStamping = sync.OnceFunc(func() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	MapStamps()
})

// wall maps timestamps to instants. All sockets share it, so that a clock step seen by one is known to all.
var wall = sync.OnceValue(clock.NewWall)

// MapStamps starts the mapping of timestamps to instants. Timestamps taken earlier cannot be mapped.
func MapStamps() { wall() }

// stampIn returns the receive timestamp in control messages, in the wall clock's nanoseconds. 0: there is none.
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
