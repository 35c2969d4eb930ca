package command

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// stuck is a terminal that takes nothing until it is let go.
type stuck struct {
	taken   chan struct{} // receives when a write begins
	release chan struct{} // closed: writes return
	text    strings.Builder
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.taken <- struct{}{}:
	default:
	}
	<-s.release
	return s.text.Write(p)
}

func TestALogWithoutAReaderStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &stuck{taken: make(chan struct{}, 1), release: make(chan struct{})}
		l := newLines(to)
		fmt.Fprintln(l, "first")
		<-to.taken
		for i := range maxLines + 5 {
			fmt.Fprintln(l, "line", i)
		}
		l.close() // waits for closeWait
		if to.text.Len() > 0 {
			t.Errorf("written: %q", to.text.String())
		}
		close(to.release)
		<-l.done
		if got := strings.Count(to.text.String(), "\n"); got != 1+maxLines {
			t.Errorf("%d lines", got)
		}
	})
}

func TestDroppedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &stuck{taken: make(chan struct{}, 1), release: make(chan struct{})}
		l := newLines(to)
		fmt.Fprintln(l, "first")
		<-to.taken
		for i := range maxLines + 3 {
			fmt.Fprintln(l, "line", i)
		}
		close(to.release)
		synctest.Wait() // the queue is empty
		fmt.Fprintln(l, "last")
		l.close()
		want := "3 log lines were dropped: the log was read too slowly\nlast\n"
		if got := to.text.String(); !strings.HasPrefix(got, "first\nline 0\n") || !strings.HasSuffix(got, want) {
			t.Errorf("it ends with %q", got[max(0, len(got)-200):])
		}
		fmt.Fprintln(l, "after close")
	})
}
