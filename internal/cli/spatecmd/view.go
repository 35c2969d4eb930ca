package spatecmd

import (
	"io"
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// view shows a run on standard error, where progress belongs, since standard output gets the results. It is safe for
// concurrent use.
type view struct {
	mu    sync.Mutex
	p     *progress
	quiet bool // only problems are shown
}

func newView(w io.Writer, quiet bool) *view {
	return &view{quiet: quiet, p: &progress{
		w: w, terminal: terminalWidth(w) > 0, width: func() int { return terminalWidth(w) }, colours: paletteOf(w),
	}}
}

// show shows one event.
func (v *view) show(e *spatev1.RunEvent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet {
		v.p.warn(e)
	} else {
		v.p.show(e)
	}
}

// close removes a line that is being rewritten.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.p.clear()
}
