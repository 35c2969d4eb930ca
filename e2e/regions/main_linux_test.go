package regions

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/netlab"
)

// programs are the paths of what is tested, built once.
var programs struct{ spate, coordinator, agent string }

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
		if err := build(dir); err != nil {
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

// build makes the programs under the names that they are installed under.
func build(dir string) error {
	for _, p := range []struct {
		path     *string
		name, in string
	}{
		{&programs.spate, "spate", "./cmd/spate"},
		{&programs.coordinator, "spate-coordinator", "./cmd/coordinator"},
		{&programs.agent, "spate-agent", "./cmd/agent"},
	} {
		*p.path = filepath.Join(dir, p.name)
		command := exec.Command("go", "build", "-o", *p.path, p.in)
		command.Dir = filepath.Join("..", "..")
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p.in, err, said)
		}
	}
	return nil
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
