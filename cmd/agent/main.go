// Command agent (installed as spate-agent) finds its coordinator and generates the load that it is assigned.
package main

import (
	"os"

	"github.com/spate-load/spate/cmd/internal/daemon"
)

// version is set by the Makefile.
var version = ""

func main() { os.Exit(daemon.Main(newCommand(daemon.Version(version)))) }
