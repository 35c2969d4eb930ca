// Command agent (installed as spate-agent) finds its coordinator and generates the load that it is assigned.
package main

import (
	"os"

	"github.com/spate-load/spate/internal/cli/agentcmd"
	"github.com/spate-load/spate/internal/cli/daemon"
)

// version is set by the Makefile.
var version = ""

func main() { os.Exit(daemon.Main(agentcmd.New("spate-agent", daemon.Version(version)))) }
