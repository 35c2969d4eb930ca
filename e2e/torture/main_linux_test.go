package torture

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
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

// TestMain also prints the tally of many runs.
func TestMain(m *testing.M) {
	code := programs.Main(m, 2)
	if *runs > 0 {
		fmt.Printf("\n%s", tally)
	}
	os.Exit(code)
}
