package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Replace writes a file completely or not at all, readable for all. It blocks until the contents are on the disk. An
// error leaves what was at path.
func Replace(path string, text []byte) error {
	return ReplaceBy(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// ReplaceBy is Replace with what a function writes. It returns the function's error.
func ReplaceBy(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	err = fill(file, write)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(file.Name()))
	}
	return nil
}

// fill writes a file and brings it to the disk.
func fill(file *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(file, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	return errors.Join(w.Flush(), file.Chmod(0o644), file.Sync())
}
