package spatecmd

import (
	"io"
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// view is where a run is seen: on standard error, which is where progress belongs, since standard output gets the
// results. It may be used concurrently.
type view struct {
	mu    sync.Mutex
	p     *progress
	quiet bool // only what is wrong is shown
}

func newView(w io.Writer, quiet bool) *view {
	return &view{quiet: quiet, p: &progress{
		w: w, terminal: terminalWidth(w) > 0, width: func() int { return terminalWidth(w) }, colours: paletteOf(w),
	}}
}

// show takes in one event.
func (v *view) show(e *spatev1.RunEvent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet {
		v.p.warn(e)
	} else {
		v.p.show(e)
	}
}

// close leaves no line behind that is being rewritten.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.p.clear()
}
