package regions

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/netlab"
	"github.com/spate-load/spate/internal/process"
)

// programs are the paths of the programs under test, built once.
var programs process.Programs

func TestMain(m *testing.M) { os.Exit(testAll(m)) }

func testAll(m *testing.M) int {
	if err := beside(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "spate-regions-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if netlab.Possible() == nil { // otherwise all tests say why they are skipped
		process.Settings = []string{"SPATE_FAIL_ON=never"} // these tests are not about verdicts
		if programs, err = process.Build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// atATime is how many tests run in parallel: they wait for networks, not for processors.
const atATime = 6

// beside sets the number of parallel tests, unless a person has set it.
func beside() error {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(atATime))
}
