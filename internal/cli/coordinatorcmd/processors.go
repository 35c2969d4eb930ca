package coordinatorcmd

import (
	"os"
	"runtime"
)

// spareProcessor gives a coordinator on one core a second of Go's processors, unless GOMAXPROCS says how many. Go gives
// a processor away from a goroutine that waits for the disk only when it has noticed, which takes it up to 10 ms; with
// a single one nobody is answered until then, neither heartbeats nor clock probes, each time the ledger is written. The
// core is shared by both, and costs no more.
func spareProcessor() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
	}
}
