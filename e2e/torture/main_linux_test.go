package torture

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// Flags that `make torture` sets.
var (
	runs    = flag.Int("torture.n", 0, "how many seeds are run; 0: the few that every test run has")
	seed    = flag.Uint64("torture.seed", 1, "first seed")
	only    = flag.String("torture.only", "", "pattern: only seeds whose script, in words, matches it")
	summary = flag.String("torture.summary", "", "file that gets a line of JSON for each run")
	keep    = flag.String("torture.keep", "", "directory that keeps what failed runs left behind (default: a temporary one)")
)

// programs are the paths of what is tested, built once.
var programs struct{ spate, coordinator, agent string }

// TestMain builds the programs if runs need them.
func TestMain(m *testing.M) { os.Exit(testAll(m)) }

func testAll(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "spate-torture-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(dir)
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

// build makes the programs.
func build(dir string) error {
	for path, p := range map[*string][2]string{
		&programs.spate: {"spate", "./cmd/spate"}, &programs.coordinator: {"spate-coordinator", "./cmd/coordinator"},
		&programs.agent: {"spate-agent", "./cmd/agent"},
	} {
		*path = filepath.Join(dir, p[0])
		command := exec.Command("go", "build", "-o", *path, p[1])
		command.Dir = filepath.Join("..", "..")
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p[1], err, said)
		}
	}
	return nil
}
