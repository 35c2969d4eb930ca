// Package engine starts a serving engine for a run, and ends it with all processes that it has started, whatever ends
// this program: a guard between the two, which is this program again, ends the engine when its input ends.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// GuardCommand is the command of this program that is a guard. Its arguments are those of Guard.
const GuardCommand = "guard-server"

// Engine is an engine that was started.
type Engine struct {
	env   []string
	guard *exec.Cmd
	input io.Closer // of the guard, which ends with it
	log   *os.File
	begin int64 // of what it prints, in the log
	ended chan struct{}
}

// Guarded returns what starts a guard: this program, which may be at another place. grace is how long its engine may
// take to end.
func Guarded(program string, grace time.Duration) []string {
	return []string{program, GuardCommand, grace.String()}
}

// Start starts an engine by a guard, to which it adds the command, in the environment of this program and with env,
// NAME=VALUE. What it prints is appended to the file at log. The caller must call Stop, also after the engine has ended
// by itself.
func Start(guard, command, env []string, log string) (e *Engine, err error) {
	e = &Engine{env: append(os.Environ(), env...), ended: make(chan struct{})}
	if e.log, err = os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644); err != nil {
		return nil, err
	}
	fmt.Fprintf(e.log, "%q\n", command)
	e.begin, _ = e.log.Seek(0, io.SeekEnd) // else all that is there is its own
	e.guard = e.command(context.Background(), slices.Concat(guard, command))
	Alone(e.guard)
	if e.input, err = e.guard.StdinPipe(); err == nil {
		err = e.guard.Start()
	}
	if err != nil {
		return nil, errors.Join(err, e.log.Close())
	}
	go func() {
		_ = e.guard.Wait() // its last line says it
		close(e.ended)
	}()
	return e, nil
}

// command returns a command with the engine's environment, which prints to its log.
func (e *Engine) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = e.env, e.log, e.log
	return cmd
}

// Run runs a command that does something to the engine, such as resetting it, to its end. An empty one does nothing.
func (e *Engine) Run(ctx context.Context, argv []string) error {
	const most = time.Minute
	if len(argv) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return e.command(ctx, argv).Run()
}

// Ended returns a channel that is closed when the engine and all its processes have ended.
func (e *Engine) Ended() <-chan struct{} { return e.ended }

// Stop ends the engine and waits until none of its processes is left.
func (e *Engine) Stop() {
	_ = e.input.Close() // the guard may have ended
	<-e.ended
	_ = e.log.Close() // nothing was buffered
}

// Last returns the last lines that the engine has printed, at most five. When it has ended, the last one says how.
func (e *Engine) Last() []string {
	const most, lines = 4096, 5
	end, _ := e.log.Seek(0, io.SeekEnd)
	text := make([]byte, max(0, min(most, end-e.begin)))
	n, _ := e.log.ReadAt(text, end-int64(len(text))) // what can be read is told
	all := strings.FieldsFunc(string(text[:n]), func(r rune) bool { return r == '\n' || r == '\r' })
	return lists.Each(all[max(0, len(all)-lines):], words.Printable)
}
