// Command coordinator (installed as spate-coordinator) waits for agents and runs the plans that `spate run
// --coordinator` submits.
package main

import (
	"os"

	"github.com/spate-load/spate/internal/cli/coordinatorcmd"
	"github.com/spate-load/spate/internal/cli/daemon"
)

// version is set by the Makefile.
var version = ""

func main() { os.Exit(daemon.Main(coordinatorcmd.New("spate-coordinator", daemon.Version(version)))) }
