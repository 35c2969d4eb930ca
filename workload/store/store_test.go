package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/filestest"
)

var content = []byte("rows of a dataset")

// name is the hash of the content.
func name() string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "deep", "[1] datasets [")) // as a pattern this is a bad one
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stored lists the files in the store.
func stored(t *testing.T, s *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestCreate: a dataset that is received in pieces is in the store after Commit, and not before.
func TestCreate(t *testing.T) {
	s := open(t)
	in, err := s.Create(name(), uint64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range content {
		if in.Written() != uint64(i) {
			t.Fatalf("has %d bytes of %d", in.Written(), i)
		}
		if _, found, err := s.Path(name(), uint64(len(content))); found || err != nil {
			t.Fatalf("found before its end: %v, %v", found, err)
		}
		if _, err := in.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	path, err := in.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Discard(); err != nil {
		t.Errorf("discarding what was committed: %v", err)
	}
	if found, ok, err := s.Path(name(), uint64(len(content))); found != path || !ok || err != nil {
		t.Errorf("%s, %v, %v; it lies in %s", found, ok, err, path)
	}
	f, err := s.Open(name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%q, %v", got, err)
	}
	if left := stored(t, s); len(left) != 1 {
		t.Errorf("the store holds %v", left)
	}
}

// TestRefused: data that differ from the announcement never become part of the store, and leave nothing behind.
func TestRefused(t *testing.T) {
	for what, c := range map[string]struct {
		size    uint64
		content []byte
		wants   string
	}{
		"too short":    {uint64(len(content)), content[1:], "received 16 bytes"},
		"other bytes":  {uint64(len(content)), bytes.ToUpper(content), "with hash"},
		"too long":     {uint64(len(content)) - 1, content, "more than the announced 16 bytes"},
		"another size": {uint64(len(content)) + 1, content, "of 18 bytes: received 17"},
	} {
		s := open(t)
		in, err := s.Create(name(), c.size)
		if err != nil {
			t.Fatal(err)
		}
		_, err = in.Write(c.content)
		if err == nil {
			_, err = in.Commit()
		}
		if err == nil || !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%s: %v", what, err)
		}
		if err := in.Discard(); err != nil {
			t.Error(err)
		}
		if left := stored(t, s); len(left) != 0 {
			t.Errorf("%s: left %v", what, left)
		}
	}
}

// TestNames: only a hash can name a file.
func TestNames(t *testing.T) {
	s := open(t)
	for _, bad := range []string{"", "..", "../../etc/passwd", strings.ToUpper(name()), name() + "0",
		strings.Repeat("/", 64)} {
		if _, err := s.Create(bad, 1); !errors.Is(err, ErrHash) {
			t.Errorf("creates %q: %v", bad, err)
		}
		if _, _, err := s.Path(bad, 1); !errors.Is(err, ErrHash) {
			t.Errorf("path of %q: %v", bad, err)
		}
		if _, err := s.Open(bad); !errors.Is(err, ErrHash) {
			t.Errorf("opens %q: %v", bad, err)
		}
	}
	if _, err := s.Open(name()); !errors.Is(err, ErrUnknown) {
		t.Errorf("opens what is not there: %v", err)
	}
}

// TestDamaged: whatever happens to a file, a dataset with other bytes is never found. The file is set aside, the log
// says so, and the dataset can be written again.
func TestDamaged(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	s := open(t)
	path := filepath.Join(s.dir, name()+suffix)
	filestest.Each(t, content, filestest.Pages(content, 5), func(damage []byte, what string) {
		in, err := s.Create(name(), uint64(len(content)))
		if err == nil {
			_, err = in.Write(content)
		}
		if err == nil {
			_, err = in.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		_, found, err := s.Path(name(), uint64(len(content)))
		if whole := bytes.Equal(damage, content); found != whole || err != nil ||
			!whole && !strings.Contains(log.String(), "set aside") {
			t.Fatalf("%s: found %v, %v, log %q", what, found, err, log.String())
		}
	})
	if left := stored(t, s); !slices.Contains(left, damaged+name()) {
		t.Errorf("left %v", left)
	}
}

// TestBuild stores a file that was written out of order, and refuses a wrong hash.
func TestBuild(t *testing.T) {
	s := open(t)
	write := func(hash string) func(*os.File) (string, error) {
		return func(f *os.File) (string, error) {
			_, err := f.WriteAt(content[4:], 4)
			_, err2 := f.WriteAt(content[:4], 0)
			return hash, errors.Join(err, err2)
		}
	}
	if _, err := s.Build(write(strings.Repeat("0", 64))); err == nil {
		t.Error("built bytes of another hash")
	}
	broken := errors.New("no such file")
	if _, err := s.Build(func(*os.File) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("a build that failed: %v", err)
	}
	if left := stored(t, s); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	path, err := s.Build(write(name()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%q, %v", got, err)
	}
}
