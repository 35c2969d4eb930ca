package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
)

// SalvageDir is the name of the directory, in a run directory, that Salvage writes to.
const SalvageDir = "salvaged"

// Salvage copies what is intact in the damaged ledger of a run directory to a new ledger, and makes all derived files
// from that. It writes them to the directory SalvageDir in the run directory, and replaces the files there. The result
// is incomplete and names what is lost. The files of the run directory itself do not change. damage is what is lost. If
// the ledger is intact, damage is nil and nothing is written; Write is enough then.
func Salvage(dir string, o Options) (result *results.Result, damage *ledger.DamageError, err error) {
	if _, err := os.Stat(filepath.Join(dir, ledger.File)); err != nil {
		return nil, nil, fmt.Errorf("salvage: %w", err)
	}
	plan, err := os.ReadFile(filepath.Join(dir, "plan.yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("salvage: %w", err)
	}
	to := filepath.Join(dir, SalvageDir)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, fmt.Errorf("salvage: %w", err)
	}
	fresh := filepath.Join(to, ledger.File+".new")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("salvage: %w", err)
	}
	damage, err = ledger.Salvage(filepath.Join(dir, ledger.File), fresh, plan)
	if err != nil || damage == nil {
		_ = os.Remove(to) // succeeds only if the directory is empty
		return nil, damage, err
	}
	if err := os.Rename(fresh, filepath.Join(to, ledger.File)); err != nil {
		return nil, damage, fmt.Errorf("salvage: %w", err)
	}
	result, err = Write(to, o)
	return result, damage, err
}
