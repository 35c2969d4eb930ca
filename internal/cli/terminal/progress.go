// Package terminal writes for terminals: their width, colours, lists that wrap, and a run in progress, in lines and in
// full screen.
package terminal

import (
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/term"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// progress shows a run in progress: on a terminal in one line that is rewritten below the finished stages, elsewhere in
// a line now and then. It uses only the run's events, so that local and remote runs look the same.
type progress struct {
	w        io.Writer
	terminal bool
	width    func() int
	colours  Palette

	simulation string // description of the simulation. Empty: there is none
	single     bool   // there is one target and one workload: a narrow terminal omits their names
	columns    [3]int // widths of target, workload and load
	run        *watch.Run

	stage     *watch.Stage  // in progress; nil: none is
	quietTill time.Duration // elapsed time of the stage until which a plain log stays quiet
	open      bool          // a line is being rewritten
}

// plainInterval is how often a stage's state is printed where lines cannot be rewritten.
const plainInterval = 10 * time.Second

// expect records what is known before the run.
func (p *progress) expect(plan *plans.Plan) {
	stages := plan.Outline()
	p.simulation, p.run = plans.SimulationWords(plan), watch.New()
	speed, _ := plan.Compression()
	p.single = len(plan.Proto().GetTargets()) == 1 && len(plan.Proto().GetWorkloads()) == 1
	for _, s := range stages {
		load := results.WordsInPlanTime(loadpoint.Words(s.GetLoad()), speed)
		if loadpoint.IsTemplate(s.GetLoad()) {
			load = "1000.5 req/s poisson" // as for the stages that it becomes
		}
		p.widen(s.GetTarget().GetName(), s.GetWorkload().GetName(), load)
	}
}

// widest is the largest width of a column.
const widest = 32

// widen makes the columns wide enough.
func (p *progress) widen(cells ...string) {
	for i, cell := range cells {
		p.columns[i] = max(p.columns[i], min(widest, utf8.RuneCountInString(cell)))
	}
}

// warn shows only problems.
func (p *progress) warn(e *spatev1.RunEvent) {
	if n := e.GetNotice(); n.GetSeverity() >= spatev1.Severity_SEVERITY_WARNING {
		p.note(Mark(n.GetSeverity()), n.GetText())
	}
	if c := e.GetAgentChanged(); c != nil && !c.GetJoined() {
		p.change(c)
	}
}

// change says that an agent was lost or joined, and what follows.
func (p *progress) change(c *spatev1.AgentChanged) {
	severity, text := watch.Change(c)
	p.note(Mark(severity), text)
}

// show shows one event.
func (p *progress) show(e *spatev1.RunEvent) {
	p.run.Take(0, e)
	switch e := e.GetEvent().(type) {
	case *spatev1.RunEvent_RunStarted:
		p.runBegan(e.RunStarted)
	case *spatev1.RunEvent_StageStarted:
		p.stageBegan(e.StageStarted)
	case *spatev1.RunEvent_StageProgress:
		p.stageProgress(e.StageProgress)
	case *spatev1.RunEvent_StageEnded:
		p.stageEnded(e.StageEnded)
	case *spatev1.RunEvent_AgentChanged:
		p.change(e.AgentChanged)
	case *spatev1.RunEvent_Notice:
		text := e.Notice.GetText()
		if e.Notice.GetSeverity() == spatev1.Severity_SEVERITY_INFO {
			text = firstSentence(text)
		}
		p.note(Mark(e.Notice.GetSeverity()), text)
	case *spatev1.RunEvent_RunEnded:
		p.clear()
	}
}

func (p *progress) runBegan(e *spatev1.RunStarted) {
	if p.simulation != "" {
		p.note("", p.simulation)
	}
	bound := ""
	if p.run.AtMost {
		bound = "up to "
	}
	names := lists.Each(e.GetAgents(), (*spatev1.AgentInfo).GetName)
	p.note("", fmt.Sprintf(bound+"%s on %s: %s; latencies are p50/p99 in ms", words.Count(uint64(p.run.Stages), "stage"),
		words.Count(uint64(len(names)), "agent"), words.Shorten(names, 6)))
}

func (p *progress) stageBegan(e *spatev1.StageStarted) {
	p.stage, p.quietTill = p.run.Stage(e.GetStageIndex()), plainInterval
	p.widen(e.GetTarget(), e.GetWorkload(), e.GetLoad())
	if p.terminal {
		p.rewrite(p.title() + "  starting")
	}
}

func (p *progress) stageProgress(e *spatev1.StageProgress) {
	if p.stage == nil || e.GetStageIndex() != p.stage.Index {
		return
	}
	parts := append([]string{p.title()}, p.state()...)
	if p.terminal {
		p.rewrite(p.lay(parts)[0])
		return
	}
	if elapsed := e.GetElapsed().AsDuration(); elapsed >= p.quietTill {
		p.quietTill = elapsed + plainInterval
		p.line(strings.Join(parts, "  "))
	}
}

func (p *progress) stageEnded(e *spatev1.StageEnded) {
	if p.stage == nil {
		p.neverBegan(e)
		return
	}
	parts := []string{p.title()}
	if p.stage.Progress != nil {
		parts = append(parts, p.summary()...)
	}
	if e.GetFailure() == "" && !e.GetComplete() {
		parts = append(parts, "(incomplete)")
	}
	for _, line := range p.lay(parts) {
		p.line(colourStage(p.colours, line))
	}
	if e.GetFailure() != "" {
		p.note(Mark(spatev1.Severity_SEVERITY_ERROR), e.GetFailure())
	}
	p.stage = nil
}

// skipped starts the reason why a stage was skipped. The cause was shown when it happened.
const skipped = "skipped: "

// neverBegan says why a stage did not run because an agent could not take it: the rest of the run may take hours.
func (p *progress) neverBegan(e *spatev1.StageEnded) {
	if e.GetFailure() != "" && !strings.HasPrefix(e.GetFailure(), skipped) {
		p.note(Mark(spatev1.Severity_SEVERITY_ERROR), fmt.Sprintf("stage %d was not run: %s", e.GetStageIndex()+1,
			e.GetFailure()))
	}
}

// title names the stage in progress: its number of all stages, or of at most so many, target, workload, load.
func (p *progress) title() string {
	names := ""
	if !p.narrow() || !p.single {
		names = fmt.Sprintf("%-*s  %-*s  ", p.columns[0], p.stage.Started.GetTarget(), p.columns[1], p.stage.Started.GetWorkload())
	}
	return fmt.Sprintf("[%*d/%s] %s%-*s", len(fmt.Sprint(p.run.Stages)), p.stage.Index+1, p.run.Most(), names, p.columns[2],
		p.stage.Started.GetLoad())
}

// narrow reports whether a line has no room for everything.
func (p *progress) narrow() bool { return p.terminal && p.width() < 120 }

// state returns what is known of the stage in progress. What a narrow terminal may omit is last.
func (p *progress) state() []string {
	parts := []string{p.bar()}
	if left := watch.Left(p.run.Left()); left != "" {
		parts = append(parts, left)
	}
	inFlight := words.Thousands(uint64(p.stage.Progress.GetInFlight())) + " in flight"
	if p.narrow() {
		return append(append(parts, p.figures()...), inFlight)
	}
	return append(append(parts, inFlight), p.figures()...)
}

// summary returns the line about a stage that has ended.
func (p *progress) summary() []string {
	if p.narrow() {
		return p.figures()
	}
	return append([]string{fmt.Sprintf("%5.1f s", p.stage.Elapsed().Seconds())}, p.figures()...)
}

// figures returns the numbers of a stage so far.
func (p *progress) figures() []string {
	e := p.stage.Progress
	parts := []string{fmt.Sprintf("%6s done", words.Thousands(e.GetCompleted()-min(e.GetFailed(), e.GetCompleted())))}
	if e.GetFailed() > 0 {
		parts = append(parts, fmt.Sprintf("%s failed", words.Thousands(e.GetFailed())))
	}
	if p.stage.Started.GetWhole() {
		return append(parts, p.wholeFigures()...)
	}
	parts = append(parts, fmt.Sprintf("%13s", watch.Output(p.stage)))
	if q := e.GetTtft(); q != nil {
		parts = append(parts, fmt.Sprintf("TTFT %5s/%-5s", words.Millis(q.GetP50Ms()), words.Millis(q.GetP99Ms())))
	}
	if q := e.GetTpot(); q != nil {
		parts = append(parts, fmt.Sprintf("TPOT %5s/%s", words.Millis(q.GetP50Ms()), words.Millis(q.GetP99Ms())))
	}
	return parts
}

// wholeFigures returns what is known of answers that come in one piece.
func (p *progress) wholeFigures() []string {
	parts := []string{fmt.Sprintf("%14s", watch.Output(p.stage))}
	if q := p.stage.Progress.GetE2E(); q != nil {
		parts = append(parts, fmt.Sprintf("E2E %5s/%s", words.Millis(q.GetP50Ms()), words.Millis(q.GetP99Ms())))
	}
	return parts
}

// bar draws how much of the stage has passed, by time or else by requests.
func (p *progress) bar() string {
	cells := 10
	if p.narrow() {
		cells = 5
	}
	label := fmt.Sprintf("%.0f s", p.stage.Elapsed().Seconds())
	if d := p.stage.Started.GetExpected().AsDuration().Seconds(); d > 0 {
		label = fmt.Sprintf("%.0f/%.0f s", p.stage.Elapsed().Seconds(), d)
	}
	part, known := p.stage.Part()
	if !known {
		return label
	}
	return Bar(part, cells, "█", "░") + " " + label
}

// lay puts the parts of a line side by side. If the terminal is too narrow, it removes the spaces that align the parts;
// if that is not enough, the line continues below.
func (p *progress) lay(parts []string) []string {
	if line := strings.Join(parts, "  "); !p.terminal || utf8.RuneCountInString(line) < p.width() {
		return []string{line}
	}
	lines := []string{""}
	for i, part := range parts {
		part = strings.Join(strings.Fields(part), " ")
		last := &lines[len(lines)-1]
		switch {
		case i == 0:
			*last = part
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(part) < p.width():
			*last += " " + part
		default:
			lines = append(lines, "  "+part)
		}
	}
	return lines
}

// note prints a notice after its mark, wrapped to the terminal's width.
func (p *progress) note(mark, text string) {
	width := 0
	if p.terminal {
		width = max(20, p.width()-utf8.RuneCountInString(mark))
	}
	for part := range strings.SplitSeq(text, "\n") {
		for _, line := range words.Wrap(part, width) {
			p.line(colourMark(p.colours, mark) + line)
			mark = strings.Repeat(" ", utf8.RuneCountInString(mark))
		}
	}
}

// firstSentence returns the first sentence of a note, and where the others are, with the reasons and what to do.
func firstSentence(note string) string {
	if first, _, more := strings.Cut(note, ". "); more {
		return first + ". What to do: report.md, Targets and prompts."
	}
	return note
}

// line prints a line that stays.
func (p *progress) line(text string) {
	p.clear()
	fmt.Fprintln(p.w, text)
}

// rewrite shows text in place of the last rewritten line, cut to the terminal's width.
func (p *progress) rewrite(text string) {
	fmt.Fprint(p.w, "\r\x1b[K"+colourStage(p.colours, words.Cut(text, p.width())))
	p.open = true
}

// clear removes the rewritten line.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}

var failures = regexp.MustCompile(`[0-9,]+ failed|\(incomplete\)`)

var bars = regexp.MustCompile(`█+`)

// colourStage colours a line about a stage. The line must already have its layout: colour codes have no width.
func colourStage(p Palette, line string) string {
	line = bars.ReplaceAllStringFunc(line, func(s string) string { return p.Paint(Cyan, s) })
	return failures.ReplaceAllStringFunc(line, func(s string) string { return p.Paint(Red, s) })
}

// colourMark colours the mark of a notice.
func colourMark(p Palette, mark string) string {
	switch strings.TrimSpace(mark) {
	case "✗":
		return p.Paint(Red, mark)
	case "!":
		return p.Paint(Yellow, mark)
	}
	return mark
}

// Width returns the width of the terminal behind w in columns, or 0 if w is not a terminal.
func Width(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(file.Fd())
	if err != nil {
		return 0
	}
	return width
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}

// Palette colours text for a terminal. If it is false, text stays as it is.
type Palette bool

// PaletteOf returns a palette that colours text if w is a terminal, unless NO_COLOR (https://no-color.org) or a dumb
// terminal forbids it.
func PaletteOf(w io.Writer) Palette {
	return Palette(Width(w) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// ANSI colours.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// Paint colours text.
func (p Palette) Paint(colour, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Bar draws which part of something has passed, from 0 to 1, in a number of cells, with a sign for what has passed and
// one for the rest.
func Bar(part float64, cells int, passed, rest string) string {
	full := int(max(0, min(1, part)) * float64(cells))
	return strings.Repeat(passed, full) + strings.Repeat(rest, cells-full)
}

// steps are the heights of a sparkline. A full block is none of them: it would touch the line above.
var steps = []rune("▁▂▃▄▅▆▇")

// Spark draws the last values, one in a cell, from 0 to the largest of them. A NaN is a blank. It returns what it drew,
// as wide as there are cells, and the largest value, NaN if there is none.
func Spark(values []float64, cells int) (line string, largest float64) {
	values = values[max(0, len(values)-max(0, cells)):]
	largest = math.NaN()
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) && !(v <= largest) {
			largest = v
		}
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteRune(stepOf(v, largest))
	}
	b.WriteString(strings.Repeat(" ", max(0, cells-len(values))))
	return b.String(), largest
}

// stepOf returns the step of a value.
func stepOf(v, largest float64) rune {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return ' '
	case largest <= 0:
		return steps[0]
	}
	return steps[int(math.Round(max(0, v)/largest*float64(len(steps)-1)))]
}

// Reading shows on a terminal, from the third second on, how much a command has read from ledgers. The command calls
// done before it prints anything; further calls do nothing.
func Reading(w io.Writer) (done func()) {
	if Width(w) == 0 {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for seconds := 1; ; seconds++ {
			select {
			case <-ticks.C:
			case <-stop:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
			if seconds > 2 {
				fmt.Fprintf(w, "\r\x1b[KReading request rows and measurements: %s MB in %d s",
					words.Thousands(uint64(ledger.Read.Load()>>20)), seconds)
			}
		}
	}()
	return sync.OnceFunc(func() { close(stop); <-ended })
}
