package terminal

import (
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// This file shows a run in progress in full screen, with keys to look at its stages and to stop it.

// Wish is what a person asks of the run by a key.
type Wish int

// What a person may ask.
const (
	// Interrupt is Ctrl-C: what an interrupt does without a screen.
	Interrupt Wish = iota
	// Leave leaves a run that is only watched.
	Leave
	// Drain ends the run: no more requests start, and those in flight may end.
	Drain
	// Cancel ends the run at once: requests in flight are cancelled.
	Cancel
)

// ScreenOptions say what a screen shows, and where.
type ScreenOptions struct {
	In, Out *os.File // the terminal
	RunID   string
	Plan    *plans.Plan // what is known before the run; nil: nothing
	Watches bool        // the run is somebody else's
	Ask     func(Wish)  // is called with what a person asks; it must not block
	Lines   *View       // shows the run before and after the screen
}

// Possible reports whether streams are a terminal that can show a screen and send keys.
func Possible(in any, out io.Writer) bool {
	_, ci := os.LookupEnv("CI")
	kind := os.Getenv("TERM")
	return IsTerminal(in) && IsTerminal(out) && kind != "" && kind != "dumb" && !ci
}

// Screen shows a run in full screen between Open and Close, or until a person wants lines instead. When it closes, it
// passes on to its lines what they would have shown meanwhile, so that the same stays in the terminal as without it.
// It is safe for concurrent use. A terminal that is slow or gone never blocks Show.
type Screen struct {
	lines   *View
	program *tea.Program
	closed  chan struct{} // the program has ended, and lines have what they missed

	mu      sync.Mutex
	up      bool
	kept    []*spatev1.RunEvent // for lines
	notices int                 // among kept
	queue   []*spatev1.RunEvent // for the program
	more    chan struct{}       // has room for one: the queue is not empty
}

// NewScreen makes a screen that is not open yet.
func NewScreen(o ScreenOptions) *Screen {
	return &Screen{
		lines: o.Lines, closed: make(chan struct{}), more: make(chan struct{}, 1),
		program: tea.NewProgram(newModel(o), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler()),
	}
}

// Open shows the screen. The caller calls Close.
func (s *Screen) Open() {
	s.mu.Lock()
	s.up = true
	s.mu.Unlock()
	ended := make(chan struct{})
	pumped := make(chan struct{})
	go func() { defer close(pumped); s.pump(ended) }()
	go func() {
		defer close(s.closed)
		last, err := s.program.Run()
		if m, ok := last.(*model); ok && m.fault != nil {
			err = m.fault
		}
		close(ended)
		<-pumped
		s.giveBack(err)
	}()
}

// pump passes the queue on to the program.
func (s *Screen) pump(ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-s.more:
		}
		s.mu.Lock()
		queue := s.queue
		s.queue = nil
		s.mu.Unlock()
		for _, e := range queue {
			s.program.Send(e) // returns at once when the program has ended
		}
	}
}

// giveBack shows by lines what came while the screen was up.
func (s *Screen) giveBack(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up, s.queue = false, nil
	for _, e := range s.kept {
		s.lines.Show(e)
	}
	s.kept = nil
	if err != nil {
		s.lines.Show(Notice(spatev1.Severity_SEVERITY_WARNING, "the screen ended: "+err.Error()))
	}
}

// Bounds of what waits for a slow terminal, and of the notices that lines show later.
const (
	maxQueue   = 2048
	maxNotices = 1024
)

// Show shows one event.
func (s *Screen) Show(e *spatev1.RunEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		s.lines.Show(e)
		return
	}
	s.keep(e)
	if len(s.queue) >= maxQueue && passing(e) {
		return
	}
	s.queue = append(s.queue, e)
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// passing reports whether a later event says the same or more.
func passing(e *spatev1.RunEvent) bool {
	return e.GetStageProgress() != nil || e.GetStageWindow() != nil || e.GetNotice() != nil
}

// keep keeps an event for lines: of progress the last of each stage, of notices the last ones, and no windows.
func (s *Screen) keep(e *spatev1.RunEvent) {
	if e.GetStageWindow() != nil {
		return
	}
	if n := len(s.kept); n > 0 && e.GetStageProgress() != nil && s.kept[n-1].GetStageProgress() != nil {
		s.kept[n-1] = e
		return
	}
	s.kept = append(s.kept, e)
	if e.GetNotice() == nil {
		return
	}
	if s.notices++; s.notices > maxNotices {
		s.notices--
		first := slices.IndexFunc(s.kept, func(e *spatev1.RunEvent) bool { return e.GetNotice() != nil })
		s.kept = slices.Delete(s.kept, first, first+1)
	}
}

// Close closes the screen if it is open, and blocks until the terminal is as it was before.
func (s *Screen) Close() {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	if up {
		s.program.Quit()
		<-s.closed
	}
	s.lines.Close()
}

// Log is a writer for the log of this process: it writes to a file, or between the lines of a view, or while a screen
// is up into its notices. The zero value is not valid.
type Log struct {
	to     io.Writer
	mu     sync.Mutex
	screen *Screen
	view   *View
}

// NewLog returns a log that writes to a writer.
func NewLog(to io.Writer) *Log { return &Log{to: to} }

// Within makes a screen, which may be nil, show the lines of the log while it is up, and a view at other times.
func (l *Log) Within(s *Screen, v *View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.screen, l.view = s, v
}

// Write writes a line of the log.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch text := strings.TrimSpace(string(line)); {
	case l.screen.noted(text):
		return len(line), nil
	case l.view != nil:
		l.view.line(text)
		return len(line), nil
	}
	return l.to.Write(line)
}

// noted shows a line of a log and reports whether the screen is up.
func (s *Screen) noted(line string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	if up {
		s.Show(Notice(spatev1.Severity_SEVERITY_INFO, line))
	}
	return up
}

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
