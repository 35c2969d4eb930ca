//go:build unix

package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Alone gives a command a session of its own: no terminal interrupts it.
func Alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Guard runs the command that follows a grace in args until it ends, or until this program's input ends or it is asked
// to end, and prints how it ended. It returns when no process of the command is left: it asks those of
// the command's group to end, and kills what is there after grace. On Linux that includes processes that have left the
// group.
func Guard(args []string) {
	runtime.LockOSThread() // the command dies with the thread that started it
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	adopt()
	grace, err := time.ParseDuration(args[0])
	cmd := exec.Command(args[1], args[2:]...) //nolint:noctx // it is ended below
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, group()
	if err := errors.Join(err, cmd.Start()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	ended, unwanted := make(chan struct{}), make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state says it
		close(ended)
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(unwanted)
	}()
	select {
	case <-ended:
	case <-asked:
	case <-unwanted:
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // the group may have ended
	select {
	case <-ended:
	case <-time.After(grace):
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-ended
	killOrphans()
	fmt.Fprintln(os.Stderr, cmd.ProcessState)
}
