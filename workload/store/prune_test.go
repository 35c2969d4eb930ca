package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/retention"
)

// hashed returns a dataset's name of 64 times the same digit.
func hashed(digit string) string { return strings.Repeat(digit, 64) }

// place puts a file into the store that was last used some time ago.
func place(t *testing.T, s *Store, name string, size int, ago time.Duration) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	when := time.Now().Add(-ago)
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
}

// TestPrune: the least recently used datasets are deleted first, except those in use or recently used. Other files are
// left alone.
func TestPrune(t *testing.T) {
	s := open(t)
	place(t, s, hashed("a")+suffix, 10, 100*time.Hour)
	place(t, s, hashed("b")+suffix, 10, 200*time.Hour)
	place(t, s, hashed("c")+suffix, 10, 300*time.Hour)
	place(t, s, hashed("d")+suffix, 10, time.Minute)
	place(t, s, "notes.rows", 10, 900*time.Hour)
	place(t, s, incoming+"1", 10, 48*time.Hour)
	place(t, s, incoming+"2", 10, time.Hour)
	gone, err := s.Prune(retention.Limits{Bytes: 25, Age: 250 * time.Hour}, time.Now(),
		map[string]bool{hashed("c"): true})
	if err != nil || len(gone) != 2 || gone[0].Name != hashed("b") || gone[1].Name != hashed("a") {
		t.Errorf("gone %v, error %v", gone, err)
	}
	want := []string{hashed("c") + suffix, hashed("d") + suffix, incoming + "2", "notes.rows"}
	if got := files(t, s); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

// TestOpenUpdatesLastUse: a dataset that a run finds is not the next one to be deleted.
func TestOpenUpdatesLastUse(t *testing.T) {
	s := open(t)
	for name, use := range map[string]func() error{
		hashed("a"): func() error { _, _, err := s.Path(hashed("a"), 10); return err },
		hashed("b"): func() error {
			f, err := s.Open(hashed("b"))
			return errors.Join(err, f.Close())
		},
	} {
		place(t, s, name+suffix, 10, 100*time.Hour)
		if err := use(); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := s.Prune(retention.Limits{Age: time.Nanosecond}, time.Now(), nil)
	if err != nil || len(gone) != 0 {
		t.Errorf("gone %v, error %v", gone, err)
	}
}

func TestRemove(t *testing.T) {
	s := open(t)
	place(t, s, hashed("a")+suffix, 10, 0)
	for _, c := range []struct {
		name string
		want error
	}{{hashed("a"), nil}, {hashed("a"), ErrUnknown}, {"../x", ErrHash}} {
		if err := s.Remove(c.name); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
