// Command agent (installed as spate-agent) finds its coordinator and generates the load that it is assigned.
package main

import (
	"os"

	"github.com/spate-load/spate/internal/cli/agentcmd"
	"github.com/spate-load/spate/internal/cli/command"
)

// version is set by the Makefile.
var version = ""

func main() { os.Exit(command.Main(agentcmd.New("spate-agent", command.Version(version)))) }
