package storage

import (
	"bytes"
	"compress/gzip"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// A partial reserve, left by a coordinator that died while writing it, is written again. A whole reserve is left as it
// is.
func TestReserveIsWholeOrWrittenAgain(t *testing.T) {
	r, log := Reserve(filepath.Join(t.TempDir(), "reserve")), slog.New(slog.DiscardHandler)
	if err := os.WriteFile(string(r), []byte("begun"), 0o600); err != nil {
		t.Fatal(err)
	}
	var held [2][]byte
	for i := range held {
		r.Hold(log)
		var err error
		if held[i], err = os.ReadFile(string(r)); err != nil || len(held[i]) != reserveBytes {
			t.Fatalf("%d bytes are held, %v", len(held[i]), err)
		}
	}
	if !bytes.Equal(held[0], held[1]) {
		t.Error("a reserve that was held is written again")
	}
	if !r.Release() || r.Release() {
		t.Error("it is released never, or twice")
	}
}

// The reserve takes its space also on a file system that compresses.
func TestReserveTakesRoomWhereItIsCompressed(t *testing.T) {
	r := Reserve(filepath.Join(t.TempDir(), "reserve"))
	r.Hold(slog.New(slog.DiscardHandler))
	room, err := os.ReadFile(string(r))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(room); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if packed.Len() < reserveBytes*9/10 {
		t.Errorf("%d bytes are held in %d", len(room), packed.Len())
	}
}
