package files

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestADirectoryHasOneOwner(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nothing is locked here")
	}
	dir := filepath.Join(t.TempDir(), "data")
	first, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockDir(dir); err == nil || !strings.Contains(err.Error(), "in use by another process (pid ") {
		t.Errorf("locked twice: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	again, err := LockDir(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}
