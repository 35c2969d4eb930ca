package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/files"
)

// hashedAs returns a dataset's name of 64 times the same digit.
func hashedAs(digit string) string { return strings.Repeat(digit, 64) }

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
	place(t, s, hashedAs("a")+suffix, 10, 100*time.Hour)
	place(t, s, hashedAs("b")+suffix, 10, 200*time.Hour)
	place(t, s, hashedAs("c")+suffix, 10, 300*time.Hour)
	place(t, s, hashedAs("d")+suffix, 10, time.Minute)
	place(t, s, "notes.rows", 10, 900*time.Hour)
	place(t, s, incoming+"1", 10, 48*time.Hour)
	place(t, s, incoming+"2", 10, time.Hour)
	place(t, s, damaged+"1", 10, 48*time.Hour)
	gone, err := s.Prune(files.Limits{Bytes: 25, Age: 250 * time.Hour}, time.Now(),
		map[string]bool{hashedAs("c"): true})
	if err != nil || len(gone) != 2 || gone[0].Name != hashedAs("b") || gone[1].Name != hashedAs("a") {
		t.Errorf("gone %v, error %v", gone, err)
	}
	want := []string{hashedAs("c") + suffix, hashedAs("d") + suffix, incoming + "2", "notes.rows"}
	if got := stored(t, s); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

// TestOpenUpdatesLastUse: a dataset that a run finds is not the next one to be deleted.
func TestOpenUpdatesLastUse(t *testing.T) {
	for what, use := range map[string]func(*Store) error{
		"path": func(s *Store) error { _, _, err := s.Path(name(), uint64(len(content))); return err },
		"open": func(s *Store) error {
			f, err := s.Open(name())
			return errors.Join(err, f.Close())
		},
	} {
		s := open(t)
		path, when := filepath.Join(s.dir, name()+suffix), time.Now().Add(-100*time.Hour)
		err := errors.Join(os.WriteFile(path, content, 0o600), os.Chtimes(path, when, when), use(s))
		if err != nil {
			t.Fatal(what, err)
		}
		gone, err := s.Prune(files.Limits{Age: time.Nanosecond}, time.Now(), nil)
		if err != nil || len(gone) != 0 {
			t.Errorf("%s: gone %v, error %v", what, gone, err)
		}
	}
}

func TestRemove(t *testing.T) {
	s := open(t)
	place(t, s, hashedAs("a")+suffix, 10, 0)
	for _, c := range []struct {
		name string
		want error
	}{{hashedAs("a"), nil}, {hashedAs("a"), ErrUnknown}, {"../x", ErrHash}} {
		if err := s.Remove(c.name); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
