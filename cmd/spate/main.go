// Command spate runs load tests against LLM serving deployments: alone on one machine, or through a coordinator and its
// agents.
package main

import (
	"os"

	"github.com/spate-load/spate/internal/cli/spatecmd"
)

// version is set by the Makefile.
var version = ""

func main() { os.Exit(spatecmd.Main(version)) }
