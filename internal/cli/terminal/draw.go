package terminal

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// ink is how text looks. The terminal's own 16 colours fit dark and light backgrounds; NO_COLOR, of which the library
// takes care, leaves bold and reverse.
type ink string

const (
	titleStyle ink = "7"
	labelStyle ink = "2"
	boldStyle  ink = "1"
	good       ink = Green
	doubtful   ink = Yellow
	bad        ink = Red
	drawn      ink = Cyan
)

// Render returns a text in this ink.
func (i ink) Render(text string) string { return Palette(true).Paint(string(i), text) }

// Smallest size that shows anything of use.
const (
	minWidth  = 40
	minHeight = 12
)

// clean makes words of plans, servers and coordinators harmless for a terminal.
func clean(text string) string { return watch.Clean(text) }

// draw returns the whole screen: as many lines as the terminal has, none wider.
func (m *model) draw() string {
	if m.width == 0 || m.height == 0 {
		return ""
	}
	if m.width < minWidth || m.height < minHeight {
		return ansi.Truncate("make the terminal larger", m.width, "")
	}
	lines := []string{titleStyle.Render(fit(m.title(), m.width))}
	lines = append(lines, m.head()...)
	lines = append(lines, m.warning()...)
	lines = append(lines, m.panels(m.height-len(lines)-1)...)
	lines = lines[:min(len(lines), m.height-1)]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.foot())
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// fit makes text as wide as it should be: it cuts what is wider.
func fit(text string, width int) string {
	text = ansi.Truncate(text, max(0, width), "…")
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// cell aligns a number at the right of its column.
func cell(text string) string {
	return strings.Repeat(" ", max(0, cellWidth-ansi.StringWidth(text))) + text
}

// title names the run, and says how it goes.
func (m *model) title() string {
	state := "waiting to start"
	switch {
	case m.run.Ended != nil:
		state = "ended"
	case m.wished != "":
		state = m.wished
	case !m.run.Started.IsZero():
		state = "running"
	}
	left := " spate  " + clean(m.id)
	return fit(left, m.width-ansi.StringWidth(state)-2) + " " + state + " "
}

// labelled returns a line with a label before it.
func labelled(label, text string) string { return labelStyle.Render(fit(label, labelWidth)) + text }

// labelWidth is the width of labels.
const labelWidth = 11

// head returns what is always shown of the stage.
func (m *model) head() []string {
	var lines []string
	if m.about != "" {
		lines = append(lines, doubtful.Render(m.about))
	}
	s := m.stage()
	if s == nil {
		return append(lines, m.gap("no stage has started yet")...)
	}
	lines = append(lines, m.stageLine(s), m.barLine(s), m.runLine())
	lines = append(lines, m.gap(labelled("load", m.loadWords(s)))...)
	windows := m.run.Windows(s.Index)
	lines = append(lines, m.pace(s, windows)...)
	lines = append(lines, m.gap(m.latencies(windows)...)...)
	if so := watch.SoFar(s); so != "" {
		lines = append(lines, labelled("so far", so+labelStyle.Render("  p50 / p99 of the stage in ms")))
	}
	return append(lines, m.gap(m.verdict(s)...)...)
}

// gap puts an empty line before others if the terminal is high enough.
func (m *model) gap(lines ...string) []string {
	if m.height < 32 {
		return lines
	}
	return append([]string{""}, lines...)
}

// stageLine names the stage: place, target, workload, load.
func (m *model) stageLine(s *watch.Stage) string {
	text := boldStyle.Render(fmt.Sprintf("stage %d of %s", s.Index+1, m.run.Most()))
	for _, name := range watch.Names(s) {
		text += " · " + boldStyle.Render(name)
	}
	if now := m.run.Current(); now != s && now.InProgress() {
		text += labelStyle.Render(fmt.Sprintf("  esc: back to stage %d", now.Index+1))
	}
	return text
}

// barLine shows how much of the stage has passed.
func (m *model) barLine(s *watch.Stage) string {
	if s.Started == nil {
		return labelled("not run", bad.Render(clean(s.Ended.GetFailure())))
	}
	if s.Ended != nil {
		return labelled("ended", watch.Span(s.Elapsed())+" · "+judged(watch.End(s)))
	}
	part, known := s.Part()
	if !known {
		return labelled("progress", watch.Progress(s))
	}
	return labelled("progress", m.bar(part, watch.Progress(s)))
}

// runLine shows how much of the run has passed.
func (m *model) runLine() string {
	text := watch.RunText(m.run)
	part, known := m.run.Part()
	if !known {
		return labelled("run", text)
	}
	return labelled("run", m.bar(part, text))
}

// bar draws a part, with text beside it.
func (m *model) bar(part float64, text string) string {
	cells := max(10, min(40, m.width-labelWidth-ansi.StringWidth(text)-2))
	return drawn.Render(Bar(part, cells, "━", "─")) + " " + text
}

// judged renders a text as bad unless it is about something that is well.
func judged(text string, well bool) string {
	if !well {
		return bad.Render(text)
	}
	return text
}

// loadWords compares the load asked with the load achieved.
func (m *model) loadWords(s *watch.Stage) string {
	text, over := watch.Load(s, m.run.Windows(s.Index))
	if over != "" {
		text += labelStyle.Render(" (" + over + ")")
	}
	return text
}

// pace shows requests, failures and output by window.
func (m *model) pace(s *watch.Stage, windows []*spatev1.StageWindow) []string {
	p := s.Progress
	done := words.Thousands(watch.Completed(p))
	completed := lists.Each(windows, func(w *spatev1.StageWindow) float64 {
		return float64(w.GetWhole().GetCompleted()) / float64(max(1, w.GetWhole().GetSeconds()))
	})
	if s.Started.GetWhole() {
		return []string{m.trend("completed", done, completed, "/s"), labelled("failed", judged(watch.Errors(s)))}
	}
	output := lists.Each(windows, func(w *spatev1.StageWindow) float64 { return w.GetWhole().GetFramesPerSecond() })
	if p != nil && p.OutputTokensPerSecond != nil {
		output = lists.Each(windows, func(w *spatev1.StageWindow) float64 {
			if part := w.GetWhole(); part != nil && part.OutputTokensPerSecond != nil {
				return part.GetOutputTokensPerSecond()
			}
			return math.NaN()
		})
	}
	return []string{
		m.trend("completed", done, completed, "/s"),
		m.trend("output", watch.Output(s), output, ""),
		labelled("failed", judged(watch.Errors(s))),
	}
}

// trend shows a number, and beside it how it was in the last windows, with the largest.
func (m *model) trend(label, now string, values []float64, unit string) string {
	if len(values) == 0 {
		return labelled(label, now)
	}
	spark, largest := Spark(values, m.sparkCells())
	return labelled(label, fit(now, numbersWidth)) + drawn.Render(spark) + labelStyle.Render(" ≤ "+watch.Rate(largest)+unit)
}

// Widths of the columns beside sparklines.
const (
	cellWidth    = 9
	numbersWidth = 3*cellWidth + 2
	largestWidth = 12
)

// sparkCells returns the width of sparklines.
func (m *model) sparkCells() int {
	return max(0, min(120, m.width-labelWidth-numbersWidth-largestWidth))
}

// latencies shows the percentiles of the last window, and the p99 of the windows before it.
func (m *model) latencies(windows []*spatev1.StageWindow) []string {
	cells := m.sparkCells()
	head := fit("", labelWidth) + cell("p50") + cell("p90") + cell("p99") + "  p99 by window"
	lines := []string{labelStyle.Render(head)}
	for _, metric := range watch.Metrics(m.stage()) {
		line := labelled(metric.Label, "")
		d := lastOf(windows, metric.Name)
		for _, v := range []float64{d.GetP50(), d.GetP90(), d.GetP99()} {
			line += cell(watch.Milliseconds(d, v))
		}
		lines = append(lines, line+latencyTrend(windows, metric.Name, cells))
	}
	return lines
}

// latencyTrend shows the p99 of a metric in the last windows, with the largest. A window without values is blank.
func latencyTrend(windows []*spatev1.StageWindow, metric string, cells int) string {
	spark, largest := Spark(lists.Each(windows, func(w *spatev1.StageWindow) float64 {
		d := watch.Distribution(w.GetWhole(), metric)
		if d == nil {
			return math.NaN()
		}
		return d.GetP99()
	}), cells)
	if math.IsNaN(largest) {
		return ""
	}
	return "  " + drawn.Render(spark) + labelStyle.Render(" ≤ "+words.Millis(largest))
}

// lastOf returns the values of a metric in the last window, nil if it has none.
func lastOf(windows []*spatev1.StageWindow, metric string) *spatev1.WindowDistribution {
	if len(windows) == 0 {
		return nil
	}
	return watch.Distribution(windows[len(windows)-1].GetWhole(), metric)
}

// verdict shows the verdict with its first reason and remedy.
func (m *model) verdict(s *watch.Stage) []string {
	if s.Verdict == "" {
		return []string{labelled("verdict", "none yet"), ""}
	}
	text := verdictStyle(s.Verdict).Render(clean(s.Verdict))
	if s.InProgress() {
		text += " so far"
	}
	if len(s.Doubts) == 0 || s.Verdict == "VALID" {
		return []string{labelled("verdict", text), ""}
	}
	d := s.Doubts[0]
	text += " · " + clean(d.GetCheck()) + ": " + clean(d.GetWords())
	if n := len(s.Doubts) - 1; n > 0 {
		text = fit(text, m.width-labelWidth-len(" (+99 more)")) + fmt.Sprintf(" (+%d more)", n)
	}
	return []string{labelled("verdict", text), labelled("", "→ "+clean(d.GetRemedy()))}
}

// verdictStyle returns the colour of a verdict.
func verdictStyle(verdict string) ink {
	switch verdict {
	case "VALID":
		return good
	case "SUSPECT":
		return doubtful
	}
	return bad
}

// warning shows the newest notice that a person should not miss.
func (m *model) warning() []string {
	for _, n := range slices.Backward(m.run.Notices()) {
		mark, text := noticeWords(n)
		switch n.Severity {
		case spatev1.Severity_SEVERITY_WARNING:
			return []string{doubtful.Render(mark + text)}
		case spatev1.Severity_SEVERITY_ERROR:
			return []string{bad.Render(mark + text)}
		}
	}
	return nil
}

// foot returns the line of keys, or of the question that is open.
func (m *model) foot() string {
	if m.asking {
		return titleStyle.Render(fit(" Stop the run?  d drain requests in flight   c cancel them   esc continue", m.width))
	}
	leave := "q quit"
	if m.watches {
		leave = "q leave"
	}
	keys := []string{"←→ stage", "tab panel", "↑↓ scroll", "s stop", "l lines", leave}
	return labelStyle.Render(" " + strings.Join(keys, "   "))
}
