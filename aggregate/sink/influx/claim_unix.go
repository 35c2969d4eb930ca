//go:build unix

package influx

import (
	"errors"
	"os"
	"syscall"
)

// claim makes a spool this process's own as long as the file is open: two that send it at once would each cut off what
// the other one reads.
func claim(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another process is sending it: wait until that has ended")
	}
	return err
}
