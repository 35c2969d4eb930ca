package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/ledger"
)

// SalvageDir is the name of the directory, in a run directory, that Salvage writes to.
const SalvageDir = "salvaged"

// Salvage makes a ledger of what is intact of a run directory's damaged one, and all derived files of it, in the
// directory SalvageDir of the run directory, in place of what is there. The result is incomplete and names what is
// lost. The run directory itself stays as it is. damage is what is lost, nil if the ledger is whole: then nothing is
// written, and Write does all there is to do.
func Salvage(dir string, o Options) (result *aggregate.Result, damage *ledger.DamageError, err error) {
	if _, err := os.Stat(filepath.Join(dir, LedgerFile)); err != nil {
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
	fresh := filepath.Join(to, LedgerFile+".new")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("salvage: %w", err)
	}
	damage, err = ledger.Salvage(filepath.Join(dir, LedgerFile), fresh, plan)
	if err != nil || damage == nil {
		_ = os.Remove(to) // if nothing is in it
		return nil, damage, err
	}
	if err := os.Rename(fresh, filepath.Join(to, LedgerFile)); err != nil {
		return nil, damage, fmt.Errorf("salvage: %w", err)
	}
	result, err = Write(to, o)
	return result, damage, err
}
