// Package programs runs Spate's programs for tests as people run them: as processes, on loopback. It has clusters, runs
// and simulators. Only tests import it.
package programs

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/process"
)

// Built are the paths of the programs under test. Main sets them.
var Built process.Programs

// Main makes sure that the programs are built, runs the tests of a package, and returns the exit code: not 0 if a test
// failed or left a goroutine behind. atATime tests run in parallel, unless a person has set -parallel: tests wait
// for programs and networks more than they need processors. TestMain calls it.
func Main(m *testing.M, atATime int) int {
	var err error
	if Built, err = process.Build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	process.Parallel(atATime)
	// A busy machine spoils measurements. Tests about verdicts set this flag themselves.
	process.Settings = []string{"SPATE_FAIL_ON=never"}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
