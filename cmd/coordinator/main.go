// Command coordinator (installed as spate-coordinator) waits for agents and runs the plans that `spate run --coordinator` submits.
package main

import (
	"os"

	"github.com/spate-load/spate/cmd/internal/daemon"
)

// version is set by the Makefile.
var version = ""

func main() { os.Exit(daemon.Main(newCommand(daemon.Version(version)))) }
