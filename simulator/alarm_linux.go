package simulator

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// alarm wakes one goroutine at an instant or at once. A timerfd is some 30 us late where Go's own timers are 500 to 1,000.
type alarm struct {
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("simulator: cannot create a timer, raise the limit of open files (ulimit -n): %w", err)
	}
	return &alarm{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}, nil
}

// set replaces the instant at which wait returns: 1 or any that has passed is at once, 0 never. It may be called while another
// goroutine waits.
func (a *alarm) set(at clock.Instant) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("simulator: a timer of our own cannot be set: " + err.Error())
	}
}

// wait blocks until the instant that was set last.
func (a *alarm) wait() {
	var expirations [8]byte
	_, err := a.file.Read(expirations[:])
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		panic("simulator: a timer of our own cannot be read: " + err.Error())
	}
}

// close frees the timer. Nobody may wait or set it any more.
func (a *alarm) close() { _ = a.file.Close() }
