//go:build unix

package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/terminaltest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The library's reader of keys may stay behind when a screen ends: it waits to pass on a key after
// the end.
func TestMain(m *testing.M) {
	const reader = "github.com/charmbracelet/ultraviolet.(*TerminalReader).StreamEvents"
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(reader), goleak.IgnoreAnyFunction(reader+".func1"))
}

// open returns a screen on a terminal, its lines, and what its keys ask for.
func open(file *os.File) (*Screen, *bytes.Buffer, chan Wish) {
	lines, wishes := &bytes.Buffer{}, make(chan Wish, 10)
	s := NewScreen(ScreenOptions{
		In: file, Out: file, RunID: "quick-1", Lines: NewView(lines, false),
		Ask: func(w Wish) { wishes <- w },
	})
	s.Open()
	return s, lines, wishes
}

// A person watches, looks at another stage and stops; then the terminal is as it was before, and lines tell what they
// would have told without a screen.
func TestWatchAndStop(t *testing.T) {
	term := terminaltest.New(t, 80, 24)
	s, lines, wishes := open(term.File)
	for _, e := range events() {
		s.Show(e)
	}
	term.Await("stage 2 of 8 · vllm · 300:60 · concurrency 8")
	if term.Unchanged() {
		t.Error("keys come line by line")
	}
	term.Press("\x1b[D")
	term.Await("esc: back to stage 2")
	term.Press("s")
	term.Await("Stop the run?")
	term.Press("d")
	if w := <-wishes; w != Drain {
		t.Errorf("wish %v", w)
	}
	term.Resize(100, 30)
	s.Close()
	if !term.Unchanged() {
		t.Error("the terminal is not as it was before")
	}
	var want bytes.Buffer
	v := NewView(&want, false)
	for _, e := range events() {
		if e.GetStageProgress().GetElapsed().GetSeconds()%20 == 0 { // lines on the way are for those who wait
			v.Show(e)
		}
	}
	if lines.String() != want.String() {
		t.Errorf("lines\n%s\nwant\n%s", lines, &want)
	}
	s.Show(Notice(spatev1.Severity_SEVERITY_INFO, "later"))
	if !strings.HasSuffix(lines.String(), "later\n") {
		t.Errorf("a closed screen does not show by lines: %q", lines)
	}
}

// A person may want lines instead.
func TestLinesInstead(t *testing.T) {
	term := terminaltest.New(t, 80, 24)
	s, lines, _ := open(term.File)
	s.Show(events()[0])
	term.Await("no stage has started yet")
	term.Press("l")
	<-s.closed
	if !term.Unchanged() || !strings.Contains(lines.String(), "8 stages on 30 agents") {
		t.Errorf("lines %q", lines)
	}
	s.Close()
}

// A terminal that takes nothing, because a person has suspended it or its connection hangs, does not block those who
// show events.
func TestATerminalThatHangs(t *testing.T) {
	keys, file, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	_ = pty.Setsize(keys, &pty.Winsize{Cols: 200, Rows: 50})
	s, _, _ := open(file)
	for range 50 {
		for _, e := range events() {
			s.Show(e)
		}
	}
	s.mu.Lock()
	if len(s.queue) > 2*maxQueue {
		t.Errorf("%d events wait", len(s.queue))
	}
	s.mu.Unlock()
	_ = keys.Close() // now the terminal is gone
	s.Close()
	_ = file.Close()
}

// A fault of the screen ends the screen, restores the terminal, and leaves the run to the lines.
func TestAPanicIsTheScreensOwn(t *testing.T) {
	term := terminaltest.New(t, 80, 24)
	lines := &bytes.Buffer{}
	s := NewScreen(ScreenOptions{In: term.File, Out: term.File, Lines: NewView(lines, false),
		Ask: func(Wish) { panic("a fault") }})
	s.Open()
	s.Show(events()[0])
	term.Await("no stage has started yet")
	term.Press("\x03")
	<-s.closed
	if !term.Unchanged() || !strings.Contains(lines.String(), "! the screen ended: this is a bug: a fault\n") {
		t.Errorf("lines %q", lines)
	}
	s.Close()
}

// The log goes into the notices while the screen is up, and not between its lines. Later it goes between those of the
// view, which clears the line that it rewrites.
func TestLogWithinTheScreen(t *testing.T) {
	term := terminaltest.New(t, 80, 24)
	var out bytes.Buffer
	log := NewLog(&out)
	fmt.Fprintln(log, "before")
	s, lines, _ := open(term.File)
	var between bytes.Buffer
	view := NewView(&between, false)
	log.Within(s, view)
	fmt.Fprintln(log, "meanwhile")
	term.Press("5")
	term.Await("  meanwhile")
	s.Close()
	fmt.Fprintln(log, "after")
	if out.String() != "before\n" || lines.String() != "  meanwhile\n" || between.String() != "after\n" {
		t.Errorf("log %q, lines %q, view %q", &out, lines, &between)
	}
}
