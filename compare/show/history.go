package show

import (
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

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/page"
	"github.com/spate-load/spate/report/page/chart"
)

// History writes a metric over runs in a format: json, html or text. width is that of the terminal in columns; 0: any.
func History(w io.Writer, lines []*spatev1.HistoryLine, format string, width int) error {
	switch format {
	case "json":
		return historyJSON(w, lines)
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

// historyJSON writes lines as REST has them.
func historyJSON(w io.Writer, lines []*spatev1.HistoryLine) error {
	list := make([]json.RawMessage, len(lines))
	for i, l := range lines {
		var err error
		if list[i], err = (protojson.MarshalOptions{EmitDefaultValues: true}).Marshal(l); err != nil {
			return err
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(list)
}

// historyTable has a row for each point of a line.
func historyTable(l *spatev1.HistoryLine) *table.Table {
	t := table.New(table.Words("began", "run", "version", "labels"), table.Numbers("value", "change"), table.Words("meaning"))
	for _, p := range l.GetPoints() {
		d := &compare.Difference{Metric: l.GetMetric(), Unit: l.GetUnit()}
		changed, verdict := "n/a", ""
		if p.GetAgainst() != "" {
			changed = change(d, p.Change)
		}
		if p.GetVerdict() != string(trust.Valid) {
			verdict = p.GetVerdict()
		}
		row := t.Add(lists.Each([]string{p.GetTime().AsTime().Format("2006-01-02 15:04"), p.GetRun(), p.GetVersion(),
			strings.Join(naming.LabelTexts(p.GetLabels()), " "), value(d, p.GetValue()), changed,
			words.Joined(", ", p.GetOutcome(), verdict)}, words.Printable)...)
		row.Cells[len(row.Cells)-2].Class = p.GetOutcome()
	}
	return t
}

// linked returns a line's table with the newest run first. link: runs that are there lead to their pages.
func linked(l *spatev1.HistoryLine, link bool) *table.Table {
	t := historyTable(l)
	for i, p := range l.GetPoints() {
		if link && !p.GetRemoved() {
			t.Rows[i].Cells[1].Link = "/runs/" + url.PathEscape(p.GetRun())
		}
	}
	slices.Reverse(t.Rows)
	return t
}

// lineTitle names a line: plan, target, workload, load and metric.
func lineTitle(l *spatev1.HistoryLine) string {
	return words.Printable(fmt.Sprintf("%s: %s, %s, %s: %s", l.GetPlan(), l.GetTarget(), l.GetWorkload(), l.GetLoad(), compare.TitleOf(l.GetMetric())))
}

var (
	//go:embed history.html.tmpl
	historyText string

	historyTemplate = template.Must(template.New("history").Funcs(template.FuncMap{
		"title": lineTitle, "table": linked, "figure": historyChart,
	}).Parse(table.HTML + historyText))
)

// historyPage writes a page without scripts that needs no network.
func historyPage(w io.Writer, lines []*spatev1.HistoryLine) error {
	review, err := Review(lines, false)
	if err != nil {
		return err
	}
	return page.Execute(w, historyTemplate,
		map[string]any{"Policy": page.SheetPolicy(), "Sheet": page.Sheet(), "Review": review})
}

// Review returns what people read of lines in HTML: how the newest run compares, what changed in the last week, and of
// each line a chart with its runs. link: runs that are there lead to their pages.
func Review(lines []*spatev1.HistoryLine, link bool) (template.HTML, error) {
	var b strings.Builder
	err := historyTemplate.ExecuteTemplate(&b, "review", map[string]any{
		"Lines": lines, "Link": link, "Answers": []string{headline.Newest(lines), headline.Week(lines)},
	})
	return template.HTML(b.String()), err //nolint:gosec // a template of this package wrote it
}

// historyChart draws a line over the time of its runs. Labels are at runs that are worse or better than the one before,
// and dashed lines where the version of Spate or a label of the target is another one than before.
func historyChart(l *spatev1.HistoryLine) template.HTML {
	d := &compare.Difference{Metric: l.GetMetric(), Unit: l.GetUnit()}
	var points []chart.Point
	var versions chart.Marks
	for i, p := range l.GetPoints() {
		point := chart.Point{X: float64(p.GetTime().GetSeconds()), Y: p.GetValue(),
			Title: fmt.Sprintf("%s: %s", words.Printable(p.GetRun()), value(d, p.GetValue()))}
		if o := compare.Outcome(p.GetOutcome()); o == compare.Worse || o == compare.Better {
			point.Label = fmt.Sprintf("%s %s", p.GetOutcome(), change(d, p.Change))
		}
		switch trust.Verdict(p.GetVerdict()) {
		case trust.Suspect:
			point.Doubt = chart.Suspect
		case trust.Invalid:
			point.Doubt = chart.Invalid
		}
		points = append(points, point)
		if i == 0 {
			continue
		}
		if said := words.Printable(strings.Join(changed(l.GetPoints()[i-1], p), ", ")); said != "" {
			versions = append(versions, chart.Mark{X: point.X, Title: said, Label: said})
		}
	}
	first, last := l.GetPoints()[0].GetTime().AsTime(), l.GetPoints()[len(l.GetPoints())-1].GetTime().AsTime()
	return chart.Chart{
		Label: lineTitle(l), Width: 480, Height: 200, Y: chart.Axis{Zero: true}, X: dates(first, last),
		Description: "Labels mark runs that are worse or better than the run before, dashed lines other versions and " +
			"labels. The table has all numbers.",
		Series: []chart.Series{{Lines: [][]chart.Point{points}}}, Layers: []chart.Layer{versions},
	}.SVG()
}

// changed returns the version of Spate and the labels of the target that differ from those of the run before.
func changed(before, p *spatev1.HistoryPoint) (said []string) {
	if p.GetVersion() != before.GetVersion() {
		said = append(said, "Spate "+p.GetVersion())
	}
	for _, name := range slices.Sorted(maps.Keys(p.GetLabels())) {
		if p.GetLabels()[name] != before.GetLabels()[name] {
			said = append(said, name+"="+p.GetLabels()[name])
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
