package retention

import (
	"io/fs"
	"path/filepath"
)

// SizeOf returns the total size of the files in a directory, in bytes. Files that cannot be read are not counted.
func SizeOf(dir string) (bytes uint64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // not counted
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += uint64(info.Size())
		}
		return nil
	})
	return bytes
}
