package coordinatorcmd

import (
	"os"
	"runtime"
)

// spareProcessor sets GOMAXPROCS to 2 for a coordinator on one core, unless the environment sets it. Go takes a
// processor from a goroutine that waits for the disk only when it notices the wait, after up to 10 ms. With a single
// processor, each write of the ledger would delay all answers that long, including heartbeats and clock probes. The two
// processors share the core, and cost nothing more.
func spareProcessor() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
	}
}
