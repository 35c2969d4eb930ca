package plancmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadingSaysHowFarItIs(t *testing.T) {
	r := &reading{have: 3 << 19}
	if got := r.words(); got != "1.5 MiB" {
		t.Errorf("%q", got)
	}
	r.size = 6 << 20
	if got := r.words(); got != "1.5 of 6.0 MiB, 25 %" {
		t.Errorf("%q", got)
	}
	r.have = 7 << 20 // the file grew
	if got := r.words(); got != "7.0 of 6.0 MiB, 100 %" {
		t.Errorf("%q", got)
	}
}

// TestReadingKnowsAFile: a file has a size, a stream does not. Nothing is shown if there is no terminal.
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
	var notes bytes.Buffer
	r := newReading(t.Context(), file, "rows", &notes, false)
	r.next = r.next.Add(-showReadingAfter)
	text, err := io.ReadAll(r)
	_ = r.Close()
	if err != nil || string(text) != "12345" || r.size != 5 || r.have != 5 || notes.Len() > 0 {
		t.Errorf("%q, %v, %+v, notes %q", text, err, r, notes.String())
	}
	if r := newReading(t.Context(), io.NopCloser(strings.NewReader("1")), "rows", &notes, false); r.size != 0 {
		t.Errorf("a stream of %d bytes", r.size)
	}
}

func TestReadingStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newReading(ctx, io.NopCloser(strings.NewReader("12345")), "rows", io.Discard, true)
	cancel()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
