package calibration

import (
	"fmt"
)

// spareFiles is how many files each process opens in addition to its streams.
const spareFiles = 128

// room is how many streams this machine has room for, regardless of the agent.
type room struct {
	files int // maximum open files of a process; 0: no limit, or not known
	ports int // source ports for connections to one address; 0: not known
}

// check returns an error if that many streams at once are impossible.
func (r room) check(streams int) error {
	switch {
	case r.files > 0 && streams+spareFiles > r.files:
		return fmt.Errorf("%d streams need %d open files in each of the two processes, but the hard limit is %d: "+
			"raise it (ulimit -Hn as root, LimitNOFILE= in a systemd unit) or measure at most %d streams", streams,
			streams+spareFiles, r.files, max(0, r.files-spareFiles))
	case r.ports > 0 && streams+spareFiles > r.ports:
		return fmt.Errorf("%d streams to one address need as many source ports, but this machine has %d: widen "+
			"net.ipv4.ip_local_port_range, or measure at most %d streams", streams, r.ports, max(0, r.ports-spareFiles))
	}
	return nil
}

// CheckRoom returns an error if this machine has no room for that many streams at once, regardless of its agent.
func CheckRoom(streams int) error { return machineRoom().check(streams) }
