package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// progress shows a run while it goes on: on a terminal one line that is rewritten in place below the finished stages, elsewhere
// a line now and then. It is driven by the run's events alone, so local and remote runs look the same.
type progress struct {
	w        io.Writer
	terminal bool
	width    func() int

	stages    uint32
	began     *spatev1.StageBegan
	last      *spatev1.StageProgress
	quietTill time.Duration // elapsed time of the stage before which a plain log stays quiet
	open      bool          // a line is being rewritten
}

// plainInterval is how often a stage's state is printed where lines cannot be rewritten.
const plainInterval = 10 * time.Second

// show takes in one event.
func (p *progress) show(e *spatev1.RunEvent) {
	switch e := e.GetEvent().(type) {
	case *spatev1.RunEvent_RunBegan:
		p.runBegan(e.RunBegan)
	case *spatev1.RunEvent_StageBegan:
		p.stageBegan(e.StageBegan)
	case *spatev1.RunEvent_StageProgress:
		p.stageProgress(e.StageProgress)
	case *spatev1.RunEvent_StageEnded:
		p.stageEnded(e.StageEnded)
	case *spatev1.RunEvent_Notice:
		p.line(noticeMark(e.Notice.GetSeverity()) + e.Notice.GetText())
	case *spatev1.RunEvent_RunEnded:
		p.clear()
	}
}

func (p *progress) runBegan(e *spatev1.RunBegan) {
	p.stages = e.GetStages()
	names := make([]string, 0, len(e.GetAgents()))
	for _, a := range e.GetAgents() {
		names = append(names, a.GetName())
	}
	p.line(fmt.Sprintf("%s on %s: %s; latencies are p50/p99 in ms", count(uint64(p.stages), "stage"), count(uint64(len(names)), "agent"), shorten(names, 6)))
}

func (p *progress) stageBegan(e *spatev1.StageBegan) {
	p.began, p.last, p.quietTill = e, nil, plainInterval
	if p.terminal {
		p.rewrite(p.title() + "  starting")
	}
}

func (p *progress) stageProgress(e *spatev1.StageProgress) {
	if p.began == nil || e.GetStageIndex() != p.began.GetStageIndex() {
		return
	}
	p.last = e
	text := p.title() + "  " + p.state()
	if p.terminal {
		p.rewrite(text)
		return
	}
	if elapsed := e.GetElapsed().AsDuration(); elapsed >= p.quietTill {
		p.quietTill = elapsed + plainInterval
		p.line(text)
	}
}

func (p *progress) stageEnded(e *spatev1.StageEnded) {
	if p.began == nil {
		p.neverBegan(e)
		return
	}
	text := p.title()
	if p.last != nil {
		text += "  " + p.summary()
	}
	switch {
	case e.GetFailure() != "":
		text += "\n" + noticeMark(spatev1.Severity_SEVERITY_ERROR) + e.GetFailure()
	case !e.GetComplete():
		text += "  (incomplete)"
	}
	p.line(text)
	p.began, p.last = nil, nil
}

// skipped is how the reason begins why a stage was passed over. What led to that was said when it happened.
const skipped = "skipped: "

// neverBegan says why a stage that an agent could not take was not run: the rest of the run may take hours.
func (p *progress) neverBegan(e *spatev1.StageEnded) {
	if e.GetFailure() != "" && !strings.HasPrefix(e.GetFailure(), skipped) {
		p.line(fmt.Sprintf("%sstage %d was not run: %s", noticeMark(spatev1.Severity_SEVERITY_ERROR), e.GetStageIndex()+1, e.GetFailure()))
	}
}

// title names the stage in progress: place, target, workload, load.
func (p *progress) title() string {
	width := len(fmt.Sprint(p.stages))
	return fmt.Sprintf("[%*d/%d] %s  %-9s  %-16s", width, p.began.GetStageIndex()+1, p.stages, p.began.GetTarget(), p.began.GetWorkload(), p.began.GetLoad())
}

// state is what is known of the stage in progress.
func (p *progress) state() string {
	e := p.last
	parts := []string{p.bar()}
	parts = append(parts, fmt.Sprintf("%s in flight", thousands(uint64(e.GetInFlight()))))
	return strings.Join(append(parts, p.figures()...), "  ")
}

// summary is what is said of a stage that has ended.
func (p *progress) summary() string {
	return strings.Join(append([]string{fmt.Sprintf("%5.1f s", p.last.GetElapsed().AsDuration().Seconds())}, p.figures()...), "  ")
}

// figures are the run to date of a stage.
func (p *progress) figures() []string {
	e := p.last
	parts := []string{fmt.Sprintf("%6s done", thousands(e.GetCompleted()))} // failed ones included
	if e.GetFailed() > 0 {
		parts = append(parts, fmt.Sprintf("%s failed", thousands(e.GetFailed())))
	}
	parts = append(parts, fmt.Sprintf("%7s tok/s", thousands(uint64(e.GetOutputTokensPerSecond()+0.5))))
	if q := e.GetTtft(); q != nil {
		parts = append(parts, fmt.Sprintf("TTFT %5s/%-5s", millis(q.GetP50Ms()), millis(q.GetP99Ms())))
	}
	if q := e.GetTpot(); q != nil {
		parts = append(parts, fmt.Sprintf("TPOT %5s/%s", millis(q.GetP50Ms()), millis(q.GetP99Ms())))
	}
	return parts
}

// bar draws how much of the stage has passed, by time or else by requests.
func (p *progress) bar() string {
	const cells = 10
	elapsed := p.last.GetElapsed().AsDuration().Seconds()
	part, label := -1.0, fmt.Sprintf("%.0f s", elapsed)
	if n := p.began.GetExpectedRequests(); n > 0 {
		part = float64(p.last.GetCompleted()) / float64(n)
	}
	if d := p.began.GetExpected().AsDuration().Seconds(); d > 0 {
		part, label = max(part, elapsed/d), fmt.Sprintf("%.0f/%.0f s", elapsed, d)
	}
	if part < 0 {
		return label
	}
	full := int(min(1, part) * cells)
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full) + " " + label
}

// line prints a line that stays.
func (p *progress) line(text string) {
	p.clear()
	fmt.Fprintln(p.w, text)
}

// rewrite shows text in place of what was last rewritten, cut to the terminal's width.
func (p *progress) rewrite(text string) {
	if width := p.width(); width > 1 && utf8.RuneCountInString(text) >= width {
		text = string([]rune(text)[:width-2]) + "…"
	}
	fmt.Fprint(p.w, "\r\x1b[K"+text)
	p.open = true
}

// clear takes the rewritten line away.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}

func noticeMark(s spatev1.Severity) string {
	switch s {
	case spatev1.Severity_SEVERITY_ERROR:
		return "✗ "
	case spatev1.Severity_SEVERITY_WARNING:
		return "! "
	default:
		return "  "
	}
}

// shorten joins names, at most n of them.
func shorten(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// count writes a number with its noun.
func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// thousands writes a number with commas.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// millis writes milliseconds with three digits at most that mean something.
func millis(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return thousands(uint64(ms + 0.5))
}
