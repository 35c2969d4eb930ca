package clustercmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A full disk is not a person's mistake, and a name that does not fit is one.
func TestADiskThatFails(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = full.WriteString("a")
	if err = errors.Join(err, full.Close()); !diskFailed(fmt.Errorf("history.db: %w", err)) {
		t.Errorf("not found: %v", err)
	}
	if _, err := os.Open(filepath.Join(t.TempDir(), "none")); diskFailed(err) {
		t.Errorf("found in: %v", err)
	}
}
