package misbehaving

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/process"
)

// programs are the paths of the programs under test, built once.
var programs process.Programs

func TestMain(m *testing.M) { os.Exit(testAll(m)) }

func testAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "spate-misbehaving-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if programs, err = process.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	process.Settings = []string{"SPATE_FAIL_ON=never"} // the servers spoil some measurements
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
