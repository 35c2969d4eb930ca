// Command coordinator (installed as spate-coordinator) waits for agents and runs the plans that `spate run
// --coordinator` submits.
package main

import (
	"os"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/coordinatorcmd"
)

// version is set by the Makefile.
var version = ""

func main() { os.Exit(command.Main(coordinatorcmd.New("spate-coordinator", command.Version(version)))) }
