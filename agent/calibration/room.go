package calibration

import (
	"fmt"
)

// spareFiles are what each process opens beside its streams.
const spareFiles = 128

// room is how many streams this machine has room for, whatever the agent is able to.
type room struct {
	files int // open files that a process may have at most; 0: not limited, or not known
	ports int // source ports that connections to one address may have; 0: not known
}

// check says why so many streams at once cannot be, or nil.
func (r room) check(streams int) error {
	switch {
	case r.files > 0 && streams+spareFiles > r.files:
		return fmt.Errorf("%d streams need %d open files in each of the two processes, and the hard limit is %d: raise it "+
			"(ulimit -Hn as root, LimitNOFILE= in a systemd unit) or ask for at most %d streams", streams,
			streams+spareFiles, r.files, max(0, r.files-spareFiles))
	case r.ports > 0 && streams+spareFiles > r.ports:
		return fmt.Errorf("%d streams to one address need as many source ports, and this machine has %d: widen "+
			"net.ipv4.ip_local_port_range, or ask for at most %d streams", streams, r.ports, max(0, r.ports-spareFiles))
	}
	return nil
}

// Room says why this machine has no room for so many streams at once, whatever its agent is able to, or nil.
func Room(streams int) error { return machineRoom().check(streams) }
