//go:build unix

// Package terminaltest has terminals for tests: a test presses keys and reads the screen of a program.
package terminaltest

import (
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// Terminal is a terminal whose screen a test can read.
type Terminal struct {
	// File is the end of programs.
	File *os.File

	tb     testing.TB
	keys   *os.File // the person's end
	before *term.State

	mu      sync.Mutex
	screen  *vt.Emulator
	changed chan struct{}
	reading sync.WaitGroup
}

// New opens a terminal, which is closed at the end of the test.
func New(tb testing.TB, columns, rows int) *Terminal {
	tb.Helper()
	keys, file, err := pty.Open()
	if err != nil {
		tb.Fatal(err)
	}
	t := &Terminal{
		File: file, tb: tb, keys: keys, screen: vt.NewEmulator(columns, rows), changed: make(chan struct{}, 1),
	}
	t.Resize(columns, rows)
	if t.before, err = term.GetState(file.Fd()); err != nil {
		tb.Fatal(err)
	}
	t.reading.Go(t.read)
	t.reading.Go(func() { _, _ = io.Copy(keys, t.screen) }) // answers to what programs ask
	tb.Cleanup(t.Close)
	return t
}

// read passes what programs write to the screen.
func (t *Terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := t.keys.Read(buffer)
		if err != nil {
			return
		}
		t.mu.Lock()
		_, _ = t.screen.Write(buffer[:n])
		t.mu.Unlock()
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
}

// Close closes the terminal, as its window is closed. It may be called more than once.
func (t *Terminal) Close() {
	_ = t.File.Close()
	_ = t.keys.Close()
	if pipe, ok := t.screen.InputPipe().(io.Closer); ok { // Close of the emulator races with its Read
		_ = pipe.Close()
	}
	t.reading.Wait()
}

// Resize makes the terminal larger. The emulator cannot make it smaller: it panics when it scrolls then.
func (t *Terminal) Resize(columns, rows int) {
	t.tb.Helper()
	if err := pty.Setsize(t.keys, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		t.tb.Fatal(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.Resize(columns, rows)
}

// Screen returns what the screen shows.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.String()
}

// patience is how long a program may take to show something on a busy machine.
const patience = time.Minute

// Await waits until the screen shows a text.
func (t *Terminal) Await(want string) {
	t.tb.Helper()
	deadline := time.After(patience)
	for !strings.Contains(t.Screen(), want) {
		select {
		case <-t.changed:
		case <-deadline:
			t.tb.Fatalf("no %q in\n%s", want, t.Screen())
		}
	}
}

// Press presses keys.
func (t *Terminal) Press(keys string) {
	t.tb.Helper()
	if _, err := t.keys.WriteString(keys); err != nil {
		t.tb.Fatal(err)
	}
}

// Unchanged reports whether the terminal treats input as it did before any program changed that.
func (t *Terminal) Unchanged() bool {
	t.tb.Helper()
	now, err := term.GetState(t.File.Fd())
	if err != nil {
		t.tb.Fatal(err)
	}
	return reflect.DeepEqual(now, t.before)
}

// Session starts a command as the only program of a terminal. It is a process.Starter.
type Session struct {
	*exec.Cmd
	Terminal *Terminal
}

// Start starts the command.
func (s Session) Start() error {
	file := s.Terminal.File
	s.Stdin, s.Stdout, s.Stderr = file, file, file
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.Env = append(s.Env, "TERM=xterm-256color")
	return s.Cmd.Start()
}
