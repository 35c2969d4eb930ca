package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/cli/progress"
	"github.com/spate-load/spate/internal/layout"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// panelCount is the number of panels.
const panelCount = 5

// panelNames are the titles of the panels, in the order of their keys.
var panelNames = [panelCount]string{"Agents", "Regions", "Stages", "Verdict", "Notices"}

// panel returns the lines of a panel: head stays while rows scroll.
func (m *model) panelLines(panel int) (head string, rows []string) {
	switch panelNames[panel] {
	case "Agents":
		return m.agents()
	case "Regions":
		return m.regions()
	case "Stages":
		return m.stages()
	case "Verdict":
		return "", m.doubts()
	}
	return "", m.notices()
}

// leastPanel is how many lines a further panel needs: its title, head and a few rows.
const leastPanel = 6

// panels fills the rest of the screen: the chosen panel, and below it others while there is room.
func (m *model) panels(height int) []string {
	var lines []string
	for i := range panelCount {
		room := height - len(lines)
		if i > 0 && room < leastPanel {
			break
		}
		panel := (m.panel + i) % panelCount
		head, rows := m.panelLines(panel)
		if i > 0 && len(rows) == 0 {
			continue
		}
		if i > 0 {
			lines = append(lines, "")
			room--
		}
		lines = append(lines, m.panelTitle(panel, i == 0))
		lines = append(lines, m.scrolled(panel, head, rows, room-1)...)
	}
	return lines
}

// panelTitle returns the title of a panel: for the chosen one between those of the others.
func (m *model) panelTitle(panel int, chosen bool) string {
	if !chosen {
		return labelStyle.Render("── " + panelNames[panel] + " " + strings.Repeat("─", max(0, m.width-5-len(panelNames[panel]))))
	}
	var names []string
	used := 3
	for i, name := range panelNames {
		text := fmt.Sprintf("%d %s", i+1, name) + m.count(i)
		used += len(text) + 2
		if i == panel {
			text = titleStyle.Render(text)
		}
		names = append(names, text)
	}
	return "── " + strings.Join(names, "  ") + " " + labelStyle.Render(strings.Repeat("─", max(0, m.width-used)))
}

// count says how many doubts or notices there are, if there are any.
func (m *model) count(panel int) string {
	n := 0
	switch panelNames[panel] {
	case "Verdict":
		if s := m.stage(); s != nil {
			n = len(s.Doubts)
		}
	case "Notices":
		n = len(m.run.Notices())
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d)", n)
}

// scrolled returns the part of a panel that fits, and limits how far it scrolls.
func (m *model) scrolled(panel int, head string, rows []string, room int) []string {
	var lines []string
	if head != "" {
		lines, room = append(lines, labelStyle.Render(head)), room-1
	}
	if len(rows) == 0 {
		return append(lines, labelStyle.Render("none"))
	}
	if len(rows) <= room {
		m.scroll[panel] = 0
		return append(lines, rows...)
	}
	room = max(1, room-1)
	from := min(m.scroll[panel], len(rows)-room)
	m.scroll[panel] = from
	lines = append(lines, rows[from:from+room]...)
	return append(lines, labelStyle.Render(fmt.Sprintf("%d to %d of %d", from+1, from+room, len(rows))))
}

// grid lays out cells in columns, the first aligned left, numbers right. A narrow terminal lacks the last columns.
func (m *model) grid(head []string, left int, rows [][]string) (string, []string) {
	t := &layout.Table{}
	for i := range head {
		t.Right = append(t.Right, i >= left)
	}
	t.Row(head...)
	for _, row := range rows {
		t.Row(row...)
	}
	t.Narrow(m.width)
	lines := t.Lines()
	return lines[0], lines[1:]
}

// partHead are the columns of what a region or an agent measured.
var partHead = []string{"req/s", "failed", "output/s", "TTFT p50", "p99", "TPOT p50", "p99", "E2E p99"}

// partCells returns what a region or an agent measured in the last window.
func partCells(p *spatev1.WindowPart) []string {
	if p == nil {
		return slices.Repeat([]string{unknown}, len(partHead))
	}
	output := p.GetFramesPerSecond()
	if p.OutputTokensPerSecond != nil {
		output = p.GetOutputTokensPerSecond()
	}
	seconds := float64(max(1, p.GetSeconds()))
	cells := []string{rate(float64(p.GetCompleted()) / seconds), words.Thousands(p.GetFailed()), rate(output)}
	of := func(metric string) *spatev1.WindowDistribution { return watch.Distribution(p, metric) }
	ttft, tpot, e2e := of("ttft_ms"), of("tpot_ms"), of("e2e_ms")
	return append(cells, milliseconds(ttft, ttft.GetP50()), milliseconds(ttft, ttft.GetP99()),
		milliseconds(tpot, tpot.GetP50()), milliseconds(tpot, tpot.GetP99()), milliseconds(e2e, e2e.GetP99()))
}

// agents shows all agents and what each measured in the last window.
func (m *model) agents() (string, []string) {
	all := slices.Clone(m.run.Agents())
	slices.SortStableFunc(all, func(a, b *watch.Agent) int {
		return cmp.Or(cmp.Compare(a.Info.GetRegion(), b.Info.GetRegion()),
			cmp.Compare(a.Info.GetName(), b.Info.GetName()))
	})
	var rows [][]string
	last := m.last()
	for _, a := range all {
		rows = append(rows, append([]string{
			clean(a.Info.GetName()), clean(cmp.Or(a.Info.GetRegion(), "-")), agentState(a, last),
		}, partCells(latest(a, last))...))
	}
	head, lines := m.grid(append([]string{"agent", "region", "state"}, partHead...), 3, rows)
	for i, a := range all {
		if a.Lost {
			lines[i] = bad.Render(lines[i])
		}
	}
	return head, lines
}

// latest returns what an agent measured in the last window, nil if it measured nothing or that is not known.
func latest(a *watch.Agent, last *spatev1.StageWindow) *spatev1.WindowPart {
	if last == nil || a.Stage != last.GetStageIndex() || a.Window != last.GetNumber() {
		return nil
	}
	return a.Latest
}

// agentState says how an agent does, as far as events tell.
func agentState(a *watch.Agent, last *spatev1.StageWindow) string {
	switch {
	case a.Lost:
		return "lost"
	case len(last.GetAgents()) > 0 && latest(a, last) == nil:
		return "idle"
	case a.Joined:
		return "joined"
	}
	return "ok"
}

// last returns the last window of the stage that is shown, nil if there is none.
func (m *model) last() *spatev1.StageWindow {
	s := m.stage()
	if s == nil {
		return nil
	}
	windows := m.run.Windows(s.Index)
	if len(windows) == 0 {
		return nil
	}
	return windows[len(windows)-1]
}

// regions shows what each region measured in the last window.
func (m *model) regions() (string, []string) {
	agents := map[string]int{}
	for _, a := range m.run.Agents() {
		if !a.Lost {
			agents[a.Info.GetRegion()]++
		}
	}
	var rows [][]string
	for _, p := range m.last().GetRegions() {
		rows = append(rows, append([]string{clean(p.GetName()), fmt.Sprint(agents[p.GetName()])}, partCells(p)...))
	}
	return m.grid(append([]string{"region", "agents"}, partHead...), 1, rows)
}

// stages shows all stages that started or were skipped.
func (m *model) stages() (string, []string) {
	all, shown := m.run.All(), m.stage()
	var rows [][]string
	for _, s := range all {
		mark := " "
		if s == shown {
			mark = "▸"
		}
		p := s.Progress
		rows = append(rows, []string{
			mark + fmt.Sprint(s.Index+1), clean(s.Started.GetTarget()), clean(s.Started.GetWorkload()),
			clean(s.Started.GetLoad()), stageState(s),
			words.Thousands(p.GetCompleted() - min(p.GetFailed(), p.GetCompleted())), words.Thousands(p.GetFailed()),
			outputOf(p), quantile(p.GetTtft().GetP50Ms(), p.GetTtft()), quantile(p.GetTtft().GetP99Ms(), p.GetTtft()),
			quantile(p.GetTpot().GetP50Ms(), p.GetTpot()), quantile(p.GetTpot().GetP99Ms(), p.GetTpot()),
		})
	}
	head, lines := m.grid([]string{"stage", "target", "workload", "load", "state", "done", "failed", "output/s",
		"TTFT p50", "p99", "TPOT p50", "p99"}, 5, rows)
	for i, s := range all {
		switch state := stageState(s); {
		case state == "SUSPECT":
			lines[i] = doubtful.Render(lines[i])
		case slices.Contains([]string{"INVALID", "failed", "incomplete"}, state):
			lines[i] = bad.Render(lines[i])
		}
	}
	return head, lines
}

// stageState says how a stage goes or ended, in a word.
func stageState(s *watch.Stage) string {
	switch {
	case s.Started == nil:
		return "not run"
	case s.Ended == nil:
		return "running"
	case s.Ended.GetFailure() != "":
		return "failed"
	case !s.Ended.GetComplete():
		return "incomplete"
	}
	return cmp.Or(clean(s.Verdict), "ended")
}

// outputOf returns the output per second of a stage.
func outputOf(p *spatev1.StageProgress) string {
	switch {
	case p == nil:
		return unknown
	case p.OutputTokensPerSecond != nil:
		return rate(p.GetOutputTokensPerSecond())
	}
	return rate(p.GetFramesPerSecond())
}

// quantile formats milliseconds, n/a if there are none.
func quantile(ms float64, of *spatev1.Quantiles) string {
	if of == nil {
		return unknown
	}
	return words.Millis(ms)
}

// doubts shows each reason for the verdict, with its remedy.
func (m *model) doubts() (lines []string) {
	s := m.stage()
	if s == nil {
		return nil
	}
	for _, d := range s.Doubts {
		lines = append(lines, m.wrapped("! ", clean(d.GetCheck())+": "+clean(d.GetWords()))...)
		lines = append(lines, m.wrapped("  → ", clean(d.GetRemedy()))...)
	}
	return lines
}

// wrapped wraps text to the screen, behind a mark.
func (m *model) wrapped(mark, text string) (lines []string) {
	for _, line := range layout.Wrap(text, max(20, m.width-len([]rune(mark))-1)) {
		lines = append(lines, mark+line)
		mark = strings.Repeat(" ", len([]rune(mark)))
	}
	return lines
}

// notices shows the last notices, the newest first.
func (m *model) notices() (lines []string) {
	for _, n := range slices.Backward(m.run.Notices()) {
		lines = append(lines, m.wrapped(noticeWords(n))...)
	}
	return lines
}

// noticeWords returns a notice: its mark and its time, and its words.
func noticeWords(n watch.Notice) (mark, text string) {
	mark, text = progress.Mark(n.Severity), n.Text
	if n.Change != nil {
		mark, text = progress.ChangeWords(n.Change)
	}
	if !n.Time.IsZero() {
		mark += n.Time.Local().Format("15:04:05 ")
	}
	return mark, clean(text)
}

// help explains the keys.
func (m *model) help() []string {
	quit, interrupt := "ask whether the run shall stop", "stop and drain; again: cancel; a third time: leave"
	if m.watches {
		quit, interrupt = "leave the run, which continues", "the same"
	}
	t := &layout.Table{}
	for _, row := range [][2]string{
		{"←  →", "stage before or after"}, {"esc", "stage in progress"}, {"tab, 1 to 5", "panel"},
		{"↑  ↓  PgUp  PgDn", "scroll the panel"}, {"s", "stop the run: asks whether to drain or to cancel"},
		{"l", "lines instead of the screen; the run continues"}, {"q", quit}, {"Ctrl-C", interrupt},
	} {
		t.Row("  "+row[0], row[1])
	}
	lines := append([]string{"", boldStyle.Render("  Keys")}, t.Lines()...)
	for _, text := range []string{
		"Percentiles are those of the last window: one second of the stage, all agents merged.",
		"Sparklines have one cell for each window and begin at 0. The number behind ≤ is their largest value.",
		"The verdict is that so far. results.json has the final one.", "Any key closes this help.",
	} {
		lines = append(append(lines, ""), m.wrapped("  ", text)...)
	}
	return lines
}
