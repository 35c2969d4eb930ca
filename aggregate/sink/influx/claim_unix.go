//go:build unix

package influx

import (
	"errors"
	"os"
	"syscall"
)

// claim locks a spool for this process as long as the file is open: of two processes that send it at once, each would
// truncate what the other reads.
func claim(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another process is sending it: wait until that has ended")
	}
	return err
}
