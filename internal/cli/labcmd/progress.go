package labcmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/calibration"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/words"
)

// calibrationProgress shows which load is being measured: on a terminal in one line that is rewritten, elsewhere in one
// line for each load.
type calibrationProgress struct {
	w        io.Writer
	terminal bool
	window   time.Duration
	most     int // loads, if each is tried once

	n     int  // loads so far
	shown bool // a line is to be rewritten
}

func newCalibrationProgress(w io.Writer, most int, window time.Duration) *calibrationProgress {
	return &calibrationProgress{w: w, terminal: terminal.Width(w) > 0, window: window, most: most}
}

// say prints a line.
func (p *calibrationProgress) say(text string) {
	p.clear()
	fmt.Fprintln(p.w, text)
}

// began shows that a load starts. Its measurement starts after `before`.
func (p *calibrationProgress) began(l calibration.Load, before time.Duration) {
	p.n++
	if !p.terminal {
		return
	}
	p.shown = true
	fmt.Fprintf(p.w, "\r\033[Kload %d of at most %d: %s, %.1f s", p.n, max(p.n, p.most), loadName(l),
		(before + p.window).Seconds())
}

// measured shows the result of a load.
func (p *calibrationProgress) measured(r *calibration.Row) {
	p.clear()
	text := fmt.Sprintf(
		"%s/s, agent %.2f cores, stamp error p99 %s us, program's %s us",
		words.Whole(r.Achieved),
		r.AgentCPU,
		spreadCell(r.Frame.Stamp, r.Frame.Stamp.P99),
		spreadCell(r.Frame.Program, r.Frame.Program.P99),
	)
	if r.Starts > 0 {
		text += ", late by p99 " + inMicroseconds(r.Lateness.P99) + " us"
	}
	for _, why := range r.BrokenRules {
		text += "; " + why
	}
	if r.Bottleneck != "" {
		text += " (" + r.BottleneckText() + ")"
	}
	width := 0
	if p.terminal {
		width = max(40, terminal.Width(p.w)-18)
	}
	for i, line := range words.Wrap(text, width) {
		if i > 0 {
			line = strings.Repeat(" ", 18) + line
		} else {
			line = fmt.Sprintf("%16s  %s", loadName(r.Load), line)
		}
		fmt.Fprintln(p.w, line)
	}
}

// close ends the display. It may be called more than once.
func (p *calibrationProgress) close() {
	p.clear()
}

// clear removes the line.
func (p *calibrationProgress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\033[K")
		p.shown = false
	}
}
