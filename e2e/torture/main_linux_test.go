package torture

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/process"
)

// Flags that `make torture` sets.
var (
	runs     = flag.Int("torture.n", 0, "how many seeds are run; 0: the few that every test run has")
	seed     = flag.Uint64("torture.seed", 1, "first seed")
	only     = flag.String("torture.only", "", "pattern: only seeds whose script, in words, matches it")
	summary  = flag.String("torture.summary", "", "file that gets a line of JSON for each run")
	evidence = flag.String("torture.evidence", "", "directory that keeps what the judge saw of each run, by seed")
	keep     = flag.String("torture.keep", "",
		"directory that keeps what failed runs left behind (default: a temporary one)")
)

// programs are the paths of the programs under test, built once.
var programs process.Programs

// TestMain builds the programs if runs need them.
func TestMain(m *testing.M) { os.Exit(testAll(m)) }

func testAll(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "spate-torture-")
	if err == nil {
		defer os.RemoveAll(dir)
		process.Settings = []string{"SPATE_FAIL_ON=never"} // these tests are not about verdicts
		programs, err = process.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if *runs > 0 {
		fmt.Printf("\n%s", tally)
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
