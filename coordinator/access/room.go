package access

import (
	"fmt"
	"math"

	"github.com/spate-load/spate/internal/kernel"
)

// room is what this machine has for connections. 0: not known, or no limit.
type room struct {
	files  int    // open files of this process
	memory uint64 // bytes of this process
}

const (
	// connectionMemory is what a connection may take in bytes: half of an agent, see docs/scale.md.
	connectionMemory = 160 << 10
	// spareFiles is how many files the process opens besides connections.
	spareFiles = 256
	// unlimited is the number of connections if no limit is known.
	unlimited = 1 << 16
	// leastConnections are served in any case.
	leastConnections = 64
)

// connections returns how many connections there is room for, and what they are limited by, for a sentence. Half of the
// memory is for connections.
func (r room) connections() (most int, by string) {
	most, by = unlimited, "that this system allows"
	if r.memory > 0 {
		most = int(min(r.memory/2/connectionMemory, math.MaxInt32))
		by = fmt.Sprintf("that %d MiB of memory allow: give it more (GOMEMLIMIT if set)", r.memory>>20)
	}
	if files := r.files - spareFiles - mostTold; r.files > 0 && files < most {
		most = files
		by = fmt.Sprintf("that %d open files allow: raise the limit (ulimit -n, LimitNOFILE= in a systemd unit)", r.files)
	}
	return max(most, leastConnections), by
}

// machineRoom reads the room of this machine: its limit of open files, and its memory.
func machineRoom() room { return room{files: openFiles(), memory: kernel.Memory()} }
