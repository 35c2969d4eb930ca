package terminal

import (
	"io"
	"sync"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// View shows a run on standard error, where progress belongs, since standard output gets the results. It is safe for
// concurrent use.
type View struct {
	mu    sync.Mutex
	p     *progress
	quiet bool // only problems are shown
}

// NewView makes a view that writes to w. A quiet one shows only problems. The caller calls Close.
func NewView(w io.Writer, quiet bool) *View {
	return &View{quiet: quiet, p: &progress{
		w: w, terminal: Width(w) > 0, width: func() int { return Width(w) },
		colours: PaletteOf(w), run: watch.New(),
	}}
}

// Expect records what a plan says of the run before it starts. It comes before the first Show.
func (v *View) Expect(plan *plans.Plan) { v.p.expect(plan) }

// Show shows one event.
func (v *View) Show(e *spatev1.RunEvent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet {
		v.p.warn(e)
	} else {
		v.p.show(e)
	}
}

// line shows a line of a log.
func (v *View) line(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.p.note("", text)
}

// Close removes a line that is being rewritten.
func (v *View) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.p.clear()
}

// Caution prints what is valid in a plan but perhaps not intended.
func Caution(w io.Writer, plan *plans.Plan) {
	v := NewView(w, false)
	for _, m := range plan.Warnings() {
		v.Show(Notice(spatev1.Severity_SEVERITY_WARNING, m.Error()))
	}
}

// Notice returns the event of a notice.
func Notice(severity spatev1.Severity, text string) *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{Severity: severity, Text: text}}}
}

// Mark returns the mark of a notice, two columns wide.
func Mark(s spatev1.Severity) string {
	switch s {
	case spatev1.Severity_SEVERITY_ERROR:
		return "✗ "
	case spatev1.Severity_SEVERITY_WARNING:
		return "! "
	default:
		return "  "
	}
}
