package netlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Command is a process on a host. Set fields of exec.Cmd (Env, Dir, Stdout, Cancel) before Start as usual. The process
// is killed when its context ends, when the lab is closed, and when the test's process dies for any reason. Processes
// that it starts itself are not killed.
type Command struct {
	*exec.Cmd
	host *Host
	skew time.Duration

	waited sync.Once
	result error
}

// Command returns a command that will run on the host.
func (h *Host) Command(ctx context.Context, path string, args ...string) *Command {
	c := &Command{Cmd: exec.CommandContext(ctx, path, args...), host: h}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// SkewedCommand returns a command that will run on the host with the clocks since boot ahead by offset. Those clocks
// must not become negative. The wall clock (CLOCK_REALTIME) is the machine's: Linux has no namespace for it.
func (h *Host) SkewedCommand(ctx context.Context, offset time.Duration, path string, args ...string) *Command {
	c := h.Command(ctx, path, args...)
	c.skew = offset
	return c
}

// Start starts the process. The thread that starts the process lives until the lab is closed, because the kernel kills
// the process when that thread ends.
func (c *Command) Start() error {
	started := make(chan error, 1)
	c.host.lab.busy.Add(1)
	onThread(func() {
		defer c.host.lab.busy.Done()
		err := c.start()
		started <- err
		if err == nil {
			<-c.host.lab.ctx.Done()
		}
	})
	if err := <-started; err != nil {
		return fmt.Errorf("netlab: start on %s: %w", c.host.name, err)
	}
	l := c.host.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = append(l.running, c)
	return nil
}

// start enters the host and starts the process from the calling thread.
func (c *Command) start() error {
	if err := c.host.ns.enter(); err != nil {
		return err
	}
	if c.skew != 0 {
		if err := Skew(c.skew); err != nil {
			return err
		}
	}
	return c.Cmd.Start()
}

// Wait waits for the process, as exec.Cmd.Wait does. It may be called more than once.
func (c *Command) Wait() error {
	c.waited.Do(func() { c.result = c.Cmd.Wait() })
	return c.result
}

// Run starts the process and waits for it.
func (c *Command) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the process and returns what it wrote to standard output.
func (c *Command) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("netlab: Stdout is set already")
	}
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput runs the process and returns what it wrote to standard output and standard error.
func (c *Command) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("netlab: Stdout or Stderr is set already")
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// reap kills the process if it is still running, and waits for it.
func (c *Command) reap() {
	_ = c.Process.Kill() // it may have ended
	_ = c.Wait()
}
