package resultscmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Runs of a coordinator are fetched, and what was fetched does not stay. The fake's ledger has no stages.
func TestRunsOfACoordinator(t *testing.T) {
	service := &clienttest.FakeService{Runs: clienttest.OfAllKinds(),
		Ledger: clienttest.LedgerOf(t, clienttest.WasDone, "")}
	address, _ := service.Serve(t, "127.0.0.1:0")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for _, c := range []struct{ run, want string }{
		{"quick-1", "quick-0 and quick-1: no stage has a counterpart"},
		{"quick-2", `run quick-2 has not ended \(running\)`},
		{"quick", `no file or directory is named quick: 4 runs start with "quick"`},
		{"none", `no file or directory is named none: there is no run "none"`},
	} {
		code, _, stderr := clienttest.Run(t, []*cobra.Command{NewCompare()}, "compare", "quick-0", c.run, "--coordinator", address)
		if code != command.ExitInput || !regexp.MustCompile(c.want).MatchString(stderr) {
			t.Errorf("%s: exit code %d: %s", c.run, code, stderr)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A history leaves out the run that another process writes, and says so.
func TestHistoryDuringARun(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Create(filepath.Join(dir, "a", ledger.File), ledger.Change{Run: &spatev1.RunRecord{RunId: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, _, stderr := clienttest.Run(t, []*cobra.Command{NewHistory()}, "history", "--dir", dir)
	if !strings.Contains(stderr, "a is left out: it is in progress\n") {
		t.Error(stderr)
	}
}
