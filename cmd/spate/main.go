// Command spate runs load tests against LLM serving deployments: alone on one machine, or through a coordinator and its
// agents.
package main

import (
	"os"

	"github.com/spate-load/spate/internal/cli/spatecmd"
	"github.com/spate-load/spate/internal/engine"
)

// version is set by the Makefile.
var version = ""

func main() {
	if len(os.Args) > 3 && os.Args[1] == engine.GuardCommand {
		engine.Guard(os.Args[2:])
		return
	}
	os.Exit(spatecmd.Main(version))
}
