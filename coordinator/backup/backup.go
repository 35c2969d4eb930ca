// Package backup writes the state of a coordinator into one file, a tar archive, and restores a data directory from it.
//
// The last file of an archive, its manifest, lists all others with their SHA-256: an archive that was cut off or
// damaged is refused as a whole. It knows nothing of runs in memory.
package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/lockfile"
)

// manifestName is the name of the manifest within an archive.
const manifestName = "backup.json"

// format is the version of the form of archives.
const format = 1

// maxManifest is the largest manifest, in bytes: some 1,000,000 files.
const maxManifest = 256 << 20

// Manifest is what an archive says about itself.
type Manifest struct {
	Format int `json:"format"`
	// Time is when the backup was begun.
	Time time.Time `json:"time"`
	// Version is that of the coordinator's program.
	Version string `json:"version"`
	// Files are the other files of the archive.
	Files []File `json:"files"`
}

// File is a file of an archive.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Writer writes an archive.
type Writer struct {
	archive  *tar.Writer
	manifest Manifest
}

// NewWriter returns a writer of an archive to w.
func NewWriter(w io.Writer, begun time.Time, version string) *Writer {
	return &Writer{archive: tar.NewWriter(w), manifest: Manifest{Format: format, Time: begun.UTC(), Version: version}}
}

// Add adds a file from where it stands, up to its size now. name is its path in a data directory, with slashes. It
// blocks until the bytes are written.
func (w *Writer) Add(name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sum := sha256.New()
	if err := w.add(name, info.Size(), info.ModTime(), io.TeeReader(f, sum)); err != nil {
		return fmt.Errorf("back up %s: %w", name, err)
	}
	w.manifest.Files = append(w.manifest.Files, File{name, info.Size(), sumText(sum)})
	return nil
}

func (w *Writer) add(name string, size int64, changed time.Time, content io.Reader) error {
	err := w.archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, ModTime: changed, Mode: 0o600,
		Format: tar.FormatPAX, // times to the nanosecond, any size
	})
	if err != nil {
		return err
	}
	_, err = io.CopyN(w.archive, content, size)
	return err
}

// Close writes the manifest and ends the archive. It does not close what the archive is written to.
func (w *Writer) Close() error {
	text, err := json.Marshal(w.manifest)
	if err != nil {
		return err
	}
	err = w.add(manifestName, int64(len(text)), w.manifest.Time, strings.NewReader(string(text)))
	return errors.Join(err, w.archive.Close())
}

// Check reads an archive to its end and returns its manifest. The error says why the archive cannot be used.
func Check(r io.Reader) (Manifest, error) {
	return read(r, func(_ *tar.Header, content io.Reader) error {
		_, err := io.Copy(io.Discard, content)
		return err
	})
}

// Restore writes the files of an archive into a data directory, which must be empty or missing. If it fails, it removes
// what it wrote. It blocks until all is on the disk.
func Restore(r io.Reader, dir string) (m Manifest, err error) {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return m, fmt.Errorf("%s is not empty (%s): restore into an empty or new directory", dir, entries[0].Name())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return m, err
	}
	lock, err := lockfile.Acquire(dir)
	if err != nil {
		return m, err
	}
	m, err = read(r, func(h *tar.Header, content io.Reader) error {
		return extract(filepath.Join(dir, filepath.FromSlash(h.Name)), h.ModTime, content)
	})
	if err = errors.Join(err, lock.Release()); err != nil {
		err = errors.Join(err, empty(dir))
	}
	return m, err
}

// empty removes all that is in a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// extract writes a file that is not there yet.
func extract(to string, changed time.Time, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Sync(), f.Close(), os.Chtimes(to, changed, changed))
}

// errCutOff is the error of an archive that ends too early.
var errCutOff = errors.New("the backup is incomplete: it was cut off")

// ustar stands at ustarAt in an archive, as in all that are written since POSIX.1-1988.
const (
	ustar   = "ustar"
	ustarAt = 257
)

// read passes the files of an archive to each, and then compares them with the manifest.
func read(r io.Reader, each func(*tar.Header, io.Reader) error) (m Manifest, err error) {
	content := bufio.NewReader(r)
	head, _ := content.Peek(ustarAt + len(ustar))
	archived := bytes.HasSuffix(head, []byte(ustar)) // a short file of another kind was not cut off
	defer func() {
		if archived && errors.Is(err, io.ErrUnexpectedEOF) { // within a file of the archive
			err = errCutOff
		}
	}()
	archive, seen := tar.NewReader(content), map[string]File{}
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return m, errCutOff
		case err != nil:
			return m, fmt.Errorf("not a backup, or damaged: %w", err)
		case h.Name == manifestName:
			if m, err = readManifest(archive); err != nil {
				return m, err
			}
			return m, m.compare(seen)
		case !validName(h):
			return m, fmt.Errorf("not a backup: it has a file %.80q", h.Name)
		}
		sum := sha256.New()
		if err := each(h, io.TeeReader(archive, sum)); err != nil {
			return m, fmt.Errorf("%s: %w", h.Name, err)
		}
		seen[h.Name] = File{h.Name, h.Size, sumText(sum)}
	}
}

func sumText(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// mostDepth is how many parts a name has at most: a run and a file.
const mostDepth = 2

// validName reports whether an entry is a file within a data directory.
func validName(h *tar.Header) bool {
	return h.Typeflag == tar.TypeReg && path.Clean(h.Name) == h.Name && filepath.IsLocal(filepath.FromSlash(h.Name)) &&
		strings.Count(h.Name, "/") < mostDepth
}

func readManifest(r io.Reader) (m Manifest, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("the backup's list of files is damaged: %w", err)
	}
	if m.Format != format {
		return m, fmt.Errorf("the backup has format %d, this program reads %d: use the version that wrote it (%.40s)",
			m.Format, format, m.Version)
	}
	return m, nil
}

// compare compares the files that were read with the manifest.
func (m Manifest) compare(seen map[string]File) error {
	for _, want := range m.Files {
		got, ok := seen[want.Name]
		switch {
		case !ok:
			return fmt.Errorf("the backup is damaged: %s is missing", want.Name)
		case got != want:
			return fmt.Errorf("the backup is damaged: %s is not what was backed up", want.Name)
		}
	}
	if len(seen) != len(m.Files) {
		return fmt.Errorf("the backup is damaged: it has %d files and lists %d", len(seen), len(m.Files))
	}
	return nil
}
