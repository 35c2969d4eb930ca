package show

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/page"
	"github.com/spate-load/spate/report/page/chart"
)

// HistoryFormats are the formats of a history.
var HistoryFormats = []string{"text", "json", "html"}

// History writes a metric over runs in a format of HistoryFormats. width is that of the terminal in columns; 0: any.
func History(w io.Writer, lines []*compare.Line, format string, width int) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(lines)
	case "html":
		return historyPage(w, lines)
	}
	answer := strings.TrimSpace(headline.Newest(lines) + " " + headline.Week(lines))
	if answer != "" {
		fmt.Fprintln(w, strings.Join(words.Wrap(answer, width), "\n"))
	}
	for i, l := range lines {
		if i > 0 || answer != "" {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, lineTitle(l))
		if err := historyTable(l).Capitals().Write(w, width); err != nil {
			return err
		}
	}
	return nil
}

// historyTable has a row for each point of a line.
func historyTable(l *compare.Line) *table.Table {
	t := table.New(table.Words("began", "run", "version", "labels"), table.Numbers("value", "change"), table.Words("meaning"))
	for _, p := range l.Points {
		row := t.Add(historyCells(l, p)...)
		row.Cells[len(row.Cells)-2].Class = string(p.Outcome)
	}
	return t
}

// linked returns a line's table with the newest run first. link: runs that are there lead to their pages.
func linked(l *compare.Line, link bool) *table.Table {
	t := historyTable(l)
	for i, p := range l.Points {
		if link && !p.Removed {
			t.Rows[i].Cells[1].Link = "/runs/" + url.PathEscape(p.Run)
		}
	}
	slices.Reverse(t.Rows)
	return t
}

// lineTitle names a line: plan, target, workload, load and metric.
func lineTitle(l *compare.Line) string {
	return words.Printable(fmt.Sprintf("%s: %s, %s, %s: %s", l.Plan, l.Target, l.Workload, l.Load, titleOf(l.Metric)))
}

// historyCells returns the cells of a point.
func historyCells(l *compare.Line, p compare.HistoryPoint) []string {
	d := &compare.Difference{Metric: l.Metric, Unit: l.Unit}
	changed, meaning := "n/a", string(p.Outcome)
	if p.Against != "" {
		changed = change(d, p.Change)
	}
	if p.Verdict != trust.Valid {
		meaning = strings.Join(slices.DeleteFunc([]string{meaning, string(p.Verdict)},
			func(s string) bool { return s == "" }), ", ")
	}
	row := []string{p.Time.UTC().Format("2006-01-02 15:04"), p.Run, p.Version,
		strings.Join(naming.LabelTexts(p.Labels), " "), value(d, p.Value), changed, meaning}
	for i, cell := range row {
		row[i] = words.Printable(cell)
	}
	return row
}

var (
	//go:embed history.html.tmpl
	historyText string

	historyTemplate = template.Must(template.New("history").Funcs(template.FuncMap{
		"title": lineTitle, "table": linked, "figure": historyChart,
	}).Parse(table.HTML + historyText))
)

// historyPage writes a page without scripts that needs no network.
func historyPage(w io.Writer, lines []*compare.Line) error {
	review, err := Review(lines, false)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = historyTemplate.Execute(&b, map[string]any{"Policy": page.SheetPolicy(), "Sheet": page.Sheet(), "Review": review})
	if err != nil {
		return err
	}
	_, err = w.Write(page.Printable(b.Bytes()))
	return err
}

// Review returns what people read of lines in HTML: how the newest run compares, what changed in the last week, and of
// each line a chart with its runs. link: runs that are there lead to their pages.
func Review(lines []*compare.Line, link bool) (template.HTML, error) {
	var b strings.Builder
	err := historyTemplate.ExecuteTemplate(&b, "review", map[string]any{
		"Lines": lines, "Link": link, "Answers": []string{headline.Newest(lines), headline.Week(lines)},
	})
	return template.HTML(b.String()), err //nolint:gosec // a template of this package wrote it
}

// historyChart draws a line over the time of its runs. Labels are at runs that are worse or better than the one before,
// and dashed lines where the version of Spate or a label of the target is another one than before.
func historyChart(l *compare.Line) template.HTML {
	d := &compare.Difference{Metric: l.Metric, Unit: l.Unit}
	var points []chart.Point
	var versions chart.Marks
	for i, p := range l.Points {
		point := chart.Point{X: float64(p.Time.Unix()), Y: p.Value,
			Title: fmt.Sprintf("%s: %s", words.Printable(p.Run), value(d, p.Value))}
		if p.Outcome == compare.Worse || p.Outcome == compare.Better {
			point.Label = fmt.Sprintf("%s %s", p.Outcome, change(d, p.Change))
		}
		switch p.Verdict {
		case trust.Suspect:
			point.Doubt = chart.Suspect
		case trust.Invalid:
			point.Doubt = chart.Invalid
		}
		points = append(points, point)
		if i == 0 {
			continue
		}
		if said := words.Printable(strings.Join(changed(&l.Points[i-1], &p), ", ")); said != "" {
			versions = append(versions, chart.Mark{X: point.X, Title: said, Label: said})
		}
	}
	first, last := l.Points[0].Time, l.Points[len(l.Points)-1].Time
	return chart.Chart{
		Label: lineTitle(l), Width: 480, Height: 200, Y: chart.Axis{Zero: true}, X: dates(first, last),
		Description: "Labels mark runs that are worse or better than the run before, dashed lines other versions and " +
			"labels. The table has all numbers.",
		Series: []chart.Series{{Lines: [][]chart.Point{points}}}, Layers: []chart.Layer{versions},
	}.SVG()
}

// changed returns the version of Spate and the labels of the target that differ from those of the run before.
func changed(before, p *compare.HistoryPoint) (said []string) {
	if p.Version != before.Version {
		said = append(said, "Spate "+p.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		if p.Labels[name] != before.Labels[name] {
			said = append(said, name+"="+p.Labels[name])
		}
	}
	return said
}

// dates returns an axis with dates between two times: at both ends and between them, as fine as tells them apart.
func dates(first, last time.Time) chart.Axis {
	const steps = 4
	axis := chart.Axis{Label: "start of the run (UTC)", Min: float64(first.Unix()), Max: float64(last.Unix())}
	form := "2006-01-02"
	switch span := last.Sub(first); {
	case span < steps*time.Minute:
		form = time.TimeOnly
	case span < steps*24*time.Hour:
		form = "01-02 15:04"
	}
	for i := range steps + 1 {
		at := first.Add(last.Sub(first) * time.Duration(i) / steps)
		axis.Ticks = append(axis.Ticks, chart.Tick{Value: float64(at.Unix()), Label: at.UTC().Format(form)})
		if first.Equal(last) {
			break
		}
	}
	return axis
}
