package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// contents are the files of the tests' backups.
var contents = map[string]string{
	"run-1/ledger.db": "one", "run-2/ledger.db": "two", "audit.jsonl": strings.Repeat("x", 9999),
}

// changed is when the files changed. Retention goes by it.
var changed = time.Date(2026, 3, 29, 10, 11, 12, 131415, time.UTC)

func archived(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	var b bytes.Buffer
	w := NewWriter(&b, changed, "v1")
	for _, name := range []string{"run-1/ledger.db", "run-2/ledger.db", "audit.jsonl"} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, []byte(contents[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(name, f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRestore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	m, err := Restore(bytes.NewReader(archived(t)), dir)
	if err != nil || len(m.Files) != len(contents) || m.Version != "v1" || !m.Time.Equal(changed) {
		t.Fatalf("%+v, %v", m, err)
	}
	for name, want := range contents {
		path := filepath.Join(dir, name)
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(changed) {
			t.Errorf("%s: changed %v, %v", name, info.ModTime(), err)
		}
	}
	_, err = Restore(bytes.NewReader(archived(t)), dir)
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("into a directory with runs: %v", err)
	}
}

// A backup that was cut off anywhere, or in which any byte differs, is refused, and leaves nothing.
func TestDamage(t *testing.T) {
	whole := archived(t)
	if _, err := Check(bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	manifest := bytes.LastIndex(whole, []byte(`{"format"`))
	end := manifest + bytes.IndexByte(whole[manifest:], 0)
	for cut := 0; cut < end; cut += 101 {
		_, err := Check(bytes.NewReader(whole[:cut]))
		if header := ustarAt + len(ustar); err == nil || (cut == 0 || cut >= header) && !errors.Is(err, errCutOff) {
			t.Fatalf("cut off at %d of %d: %v", cut, len(whole), err)
		}
	}
	for _, text := range []string{"one", "two", "xxx", "run-1/ledger.db"} {
		damaged := bytes.Clone(whole)
		damaged[bytes.Index(damaged, []byte(text))] ^= 1
		dir := t.TempDir()
		if _, err := Restore(bytes.NewReader(damaged), dir); err == nil {
			t.Errorf("damage in %q is not noticed", text)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s is left", left[0].Name())
		}
	}
}

// An archive that somebody made to write elsewhere is refused.
func TestNamesStayInTheDirectory(t *testing.T) {
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "../x"}, {Typeflag: tar.TypeReg, Name: "/x"},
		{Typeflag: tar.TypeReg, Name: "a/../../x"}, {Typeflag: tar.TypeReg, Name: "a/b/c"}, {Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/etc"},
		{Typeflag: tar.TypeDir, Name: "x"}, {Typeflag: tar.TypeReg, Name: "LOCK"},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := Restore(&b, filepath.Join(dir, "data")); err == nil {
			t.Errorf("%s is restored", h.Name)
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "data")); len(left) > 0 {
			t.Errorf("%s: %s is left", h.Name, left[0].Name())
		}
		if left, _ := os.ReadDir(dir); len(left) > 1 {
			t.Errorf("%s was written elsewhere", h.Name)
		}
	}
}

// A file that grows while it is backed up is backed up as it was at the start.
func TestFilesThatGrow(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, "a line\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	grown := false
	var b bytes.Buffer
	w := NewWriter(writerFunc(func(p []byte) (int, error) {
		if !grown {
			grown = true
			if _, err := f.WriteAt([]byte("another line\n"), 7); err != nil {
				t.Error(err)
			}
		}
		return b.Write(p)
	}), changed, "")
	if err := w.Add("audit.jsonl", f); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err := Check(&b); err != nil || m.Files[0].Bytes != 7 {
		t.Errorf("%+v, %v", m, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
