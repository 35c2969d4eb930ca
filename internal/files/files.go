// Package files reads files whose size is not trusted, writes files that survive a crash, reserves directories for one
// process, and decides which items that take up space must go.
package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// ErrTooLarge is wrapped by the error about a file that is larger than allowed.
var ErrTooLarge = errors.New("it is too large")

// Open opens a file or a pipe for reading. It refuses directories and devices, some of which never end. The caller
// closes the file.
func Open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory: name a file", path)
	case info.Mode()&fs.ModeDevice != 0 && path != os.DevNull:
		err = fmt.Errorf("%s is a device: name a file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// CheckDirectory returns an error if path, the value of a flag, is a file. It need not exist.
func CheckDirectory(flag, path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("%s %s: is a file: name a directory", flag, path)
	}
	return nil
}

// ReadFile reads a file or a pipe of at most `most` bytes, and never more than one byte beyond that. It refuses what
// Open refuses. It blocks while a pipe is silent.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes: %w", path, most, ErrTooLarge)
	}
	return data, err
}

// Replace writes a file completely or not at all, readable for all. It blocks until the contents are on the disk. An
// error leaves what was at path.
func Replace(path string, text []byte) error { return replace(path, 0o644, text) }

// ReplaceSecret is Replace, but only the owner can read the file.
func ReplaceSecret(path string, text []byte) error { return replace(path, 0o600, text) }

func replace(path string, mode fs.FileMode, text []byte) error {
	return replaceBy(path, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// ReplaceBy is Replace with what a function writes. It returns the function's error.
func ReplaceBy(path string, write func(io.Writer) error) error { return replaceBy(path, 0o644, write) }

func replaceBy(path string, mode fs.FileMode, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	err = fill(file, mode, write)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(file.Name()))
	}
	return nil
}

// fill writes a file and brings it to the disk.
func fill(file *os.File, mode fs.FileMode, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(file, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	return errors.Join(w.Flush(), file.Chmod(mode), file.Sync())
}

// goTypes is where errors of YAML name a type of this program.
var goTypes = regexp.MustCompile(` (?:in type|into) \S+`)

// YAML decodes the only document of a file, whose fields must all be known; an empty file leaves to as it is. What a
// second document says would not hold, so it is refused.
func YAML(text []byte, to any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	switch err := decoder.Decode(to); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return errors.New(goTypes.ReplaceAllString(err.Error(), ""))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("a second document (---) follows: write all into the first")
	}
	return nil
}

// name of the file within the directory.
const name = "LOCK"

// Lock is a lock on a directory or a file. The kernel releases it when the process ends, however it ends, so that there
// are no stale locks. On systems without flock nothing is locked.
type Lock struct{ file *os.File }

// LockDir reserves a directory, which it creates if necessary. It does not wait. Its error names the process that holds
// the lock, if that is known.
func LockDir(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if taken, err := claim(f); err != nil {
		_ = f.Close()
		if !taken {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		owner, _ := os.ReadFile(path) // only for the message
		return nil, fmt.Errorf("directory %s is in use by another process (%.80s): end that, or name another directory",
			dir, owner)
	}
	host, _ := os.Hostname()
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "pid %d on %s", os.Getpid(), host)
	}
	return &Lock{f}, nil
}

// LockFile reserves a file that exists. It does not wait, and creates nothing: what root creates would be in the way of
// other users.
func LockFile(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if _, err := claim(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &Lock{f}, nil
}

// Release unlocks what it locks. A nil Lock holds none.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
