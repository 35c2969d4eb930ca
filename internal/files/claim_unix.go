//go:build unix

package files

import (
	"errors"
	"os"
	"syscall"
)

// claim locks a file. taken reports whether another process holds the lock.
func claim(f *os.File) (taken bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK), err
}
