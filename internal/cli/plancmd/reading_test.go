package plancmd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadingKnowsAFile: a file has a size, a stream does not.
func TestReadingKnowsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if n := (&reading{t.Context(), file}).Size(); n != 5 {
		t.Errorf("a file of %d bytes", n)
	}
	if n := (&reading{t.Context(), io.NopCloser(strings.NewReader("1"))}).Size(); n != 0 {
		t.Errorf("a stream of %d bytes", n)
	}
}

func TestReadingStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &reading{ctx, io.NopCloser(strings.NewReader("12345"))}
	cancel()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
