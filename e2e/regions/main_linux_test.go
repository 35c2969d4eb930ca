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

// programs are the paths of what is tested, built once.
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
	if netlab.Possible() == nil { // else all tests say why they are skipped
		process.Settings = []string{"SPATE_FAIL_ON=never"} // what is tested here is other than verdicts
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

// atATime is how many tests run beside each other: they wait for networks, not for processors.
const atATime = 6

// beside lets them, unless a person has said how many.
func beside() error {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(atATime))
}
