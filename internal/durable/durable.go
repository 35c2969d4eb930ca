// Package durable writes files that survive a crash.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes a file completely or not at all, readable for all. It blocks until the contents are on the disk. An
// error leaves what was at path.
func Replace(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
