package files

import (
	"fmt"
	"os"
	"path/filepath"
)

// name of the file within the directory.
const name = "LOCK"

// Lock is a lock on a directory. The kernel releases it when the process ends, however it ends, so that there are no
// stale locks. On systems without flock nothing is locked.
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

// Release unlocks the directory. A nil Lock holds none.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
