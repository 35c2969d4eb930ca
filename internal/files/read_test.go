package files

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most := range int64(6) {
		data, err := ReadFile(path, most)
		if fits := most >= 4; fits != (err == nil) || fits && !bytes.Equal(data, []byte("1234")) || !fits &&
			!errors.Is(err, ErrTooLarge) {
			t.Errorf("at most %d: %q, error %v", most, data, err)
		}
	}
	if _, err := ReadFile(dir, 9); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("directory: %v", err)
	}
	if _, err := ReadFile(filepath.Join(dir, "none"), 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Endless files are not read to their end.
func TestEndlessFiles(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("this system has no /dev/zero")
	}
	began := time.Now()
	if _, err := ReadFile("/dev/zero", 1<<40); err == nil || !strings.Contains(err.Error(), "is a device") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
