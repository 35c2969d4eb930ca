package sink_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate/sink"
)

// Waits reports a sink's spool in a run directory, for any name of the directory.
func TestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  bool
	}{
		"nothing":      {nil, false},
		"no spool":     {[]string{"ledger.db", "spool", "influx.spool.txt"}, false},
		"a spool":      {[]string{"ledger.db", "influx.spool"}, true},
		"another's":    {[]string{"other.spool"}, true},
		"brackets [x]": {[]string{"influx.spool"}, true},
	} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := sink.Waits(dir); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if sink.Waits(filepath.Join(t.TempDir(), "gone")) {
		t.Error("a directory that is not there waits")
	}
}
