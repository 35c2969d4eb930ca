//go:build unix

package calibration

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/agent/stream/socket"
)

// machineRoom reads the hard limit of open files, to which processes raise their soft limit, and Linux's range of
// source ports.
func machineRoom() room {
	var r room
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Max < math.MaxInt32 {
		r.files = int(limit.Max)
	}
	_, r.ports = socket.LocalPorts()
	return r
}

// raiseFiles raises the hard limit of open files to a number if the limit is lower, which only root may. The two
// processes inherit the limit.
func raiseFiles(to int) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max >= uint64(to) {
		return
	}
	limit.Max = uint64(to)
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // what was not permitted, check reports
}
