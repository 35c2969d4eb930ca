package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/table"
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
		return m.grid(watch.Agents(m.run, m.last()))
	case "Regions":
		return m.grid(watch.Regions(m.run, m.last()))
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
		text := fmt.Sprintf("%d %s", i+1, name)
		used += len(text) + 2
		if i == panel {
			text = titleStyle.Render(text)
		}
		names = append(names, text)
	}
	return "── " + strings.Join(names, "  ") + " " + labelStyle.Render(strings.Repeat("─", max(0, m.width-used)))
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

// grid lays out a table, text aligned left, numbers right. A narrow terminal lacks the last columns.
func (m *model) grid(of *table.Table) (head string, rows []string) {
	lines := of.Lines(m.width)
	for i, row := range of.Rows {
		switch row.Colour {
		case table.Suspect:
			lines[i+1] = doubtful.Render(lines[i+1])
		case table.Bad:
			lines[i+1] = bad.Render(lines[i+1])
		}
	}
	return lines[0], lines[1:]
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

// stages shows all stages that started or were skipped, and marks the one that is shown.
func (m *model) stages() (string, []string) {
	t := watch.Stages(m.run)
	for i, s := range m.run.All() {
		mark := " "
		if s == m.stage() {
			mark = "▸"
		}
		t.Rows[i].Cells[0].Text = mark + t.Rows[i].Cells[0].Text
	}
	return m.grid(t)
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
	for _, line := range words.Wrap(text, max(20, m.width-len([]rune(mark))-1)) {
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
	mark, text = Mark(n.Severity), watch.NoticeText(n)
	if !n.Time.IsZero() {
		mark += n.Time.Local().Format("15:04:05 ")
	}
	return mark, text
}
