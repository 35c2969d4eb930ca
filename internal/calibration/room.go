package calibration

import "fmt"

// spareFiles is how many files each process opens in addition to its streams.
const spareFiles = 128

// room is how many streams this machine has room for, regardless of the agent.
type room struct {
	files int // maximum open files of a process; 0: no limit, or not known
	ports int // source ports for connections to one address; 0: not known
}

// check returns an error if that many streams at once are impossible.
func (r room) check(streams int) error {
	if r.files > 0 && streams+spareFiles > r.files {
		return fmt.Errorf("%d streams need %d open files in each of the two processes, but the hard limit is %d: "+
			"raise it (ulimit -Hn as root, LimitNOFILE= in a systemd unit) or measure at most %d streams", streams,
			streams+spareFiles, r.files, max(0, r.files-spareFiles))
	}
	return nil
}

// endpoints returns how many addresses the simulator must have for that many streams. Each connection to one address
// needs a source port of its own. Only half of the ports are counted on, because Linux searches long for the rest.
func (r room) endpoints(streams int) int {
	if r.ports == 0 {
		return 1
	}
	each := max(1, r.ports/2)
	return max(1, (streams+each-1)/each)
}

// MakeRoom raises the limit of open files as far as that many streams at once need and this process may. It returns an
// error if the machine has no room for them, regardless of its agent.
func MakeRoom(streams int) error {
	raiseFiles(streams + spareFiles)
	return machineRoom().check(streams)
}
