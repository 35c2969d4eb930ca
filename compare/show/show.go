// Package show writes comparisons for people and programs: as text, Markdown, JSON and HTML. It calculates nothing.
package show

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// Write writes a comparison in a format: json, html, markdown or text. width is that of the terminal in columns; 0:
// any. all also shows metrics that do not differ.
func Write(w io.Writer, c *compare.Comparison, format string, width int, all bool) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(c)
	case "html":
		return htmlPage(w, c)
	}
	var b strings.Builder
	if format == "text" && !c.Several {
		fmt.Fprintf(&b, "Baseline: %s\n", words.Printable(c.Baseline))
	}
	for _, s := range sections(c, all) {
		if format == "markdown" {
			s.Markdown(&b)
		} else {
			s.Text(&b, width)
		}
	}
	_, err := io.WriteString(w, strings.TrimLeft(b.String(), "\n"))
	return err
}

// legend explains the marks of the tables.
func legend(c *compare.Comparison) string {
	return fmt.Sprintf("Change against the baseline. W worse, B better: by more than %s and not by chance. = the same "+
		"within %s. ? unclear. No mark: not tested. !: see the notes.", percentage(c.Tolerance), percentage(c.Tolerance))
}

// outcomes are the marks of outcomes in tables.
var outcomes = map[compare.Outcome]string{compare.Worse: " W", compare.Better: " B", compare.Same: " =",
	compare.Unclear: " ?", compare.Untested: "  "}

// change formats a change: in percent of the baseline, or in points.
func change(d *compare.Difference, v *float64) string {
	unit := " %"
	if d.Unit == "" {
		unit = " points"
	}
	if v == nil {
		return "n/a"
	}
	return fmt.Sprintf("%+.2f%s", 100**v, unit)
}

// value formats a value of a metric.
func value(d *compare.Difference, v float64) string {
	if d.Unit == "" {
		return fmt.Sprintf("%.2f %%", 100*v)
	}
	return fmt.Sprintf("%.2f %s", v, d.Unit)
}

// percentage formats a share in percent with as few digits as possible.
func percentage(share float64) string { return strconv.FormatFloat(100*share, 'g', 4, 64) + " %" }

// Change describes a tested or untested difference without its name.
func Change(d *compare.Difference) string {
	s := fmt.Sprintf("from %s to %s: %s", value(d, d.Baseline), value(d, d.Value), change(d, d.Change))
	if d.Low != nil {
		s += fmt.Sprintf(" (%s to %s), p %s", change(d, d.Low), change(d, d.High), probability(d.PAdjusted))
	}
	if d.Why != "" {
		s += ": " + d.Why
	}
	return s
}

// Worse describes the numbers of a stage that are worse than the baseline's, one a text.
func Worse(s *compare.Stage) []string {
	worse := lists.Where(s.Metrics, func(d compare.Difference) bool { return d.Outcome == compare.Worse })
	return lists.Each(worse, func(d compare.Difference) string { return compare.TitleOf(d.Metric) + ": " + Change(&d) })
}

// probability formats a p value.
func probability(p *float64) string {
	switch {
	case p == nil:
		return "n/a"
	case *p < 0.0001:
		return "< 0.0001"
	}
	return fmt.Sprintf("= %.4f", *p)
}

// StageName names a compared stage.
func StageName(s *compare.Stage) string {
	name := words.Printable(words.Joined(", ", s.Target, s.Workload, s.Load))
	if s.Repeat != nil && *s.Repeat > 0 {
		name += fmt.Sprintf(", repeat %d", *s.Repeat+1)
	}
	if s.Method == compare.Repeats {
		name += fmt.Sprintf(", %d and %d repeats", len(s.BaselineStages), len(s.Stages))
	}
	return name
}

// requests reports whether all stages of a side were sent the same requests as the baseline's. Stages with the same
// answer share a line, which names the first of them.
func requests(a *compare.Against) []string {
	if len(a.Stages) == 0 {
		return []string{"n/a, no stage was compared"}
	}
	var answers []string
	names := map[string][]string{}
	same, unique := 0, false
	for s := range lists.Refs(a.Stages) {
		if s.Requests.Same != nil && *s.Requests.Same {
			same++
			unique = unique || s.Requests.UniqueStarts
			continue
		}
		answer := map[bool]string{true: "not known: ", false: "no: "}[s.Requests.Same == nil] + s.Requests.Why
		answers, names[answer] = words.AppendOnce(answers, answer), append(names[answer], StageName(s))
	}
	switch {
	case same == len(a.Stages) && unique:
		return []string{"yes, in all stages: workloads, loads, seeds and lengths are equal, and by cache_busting no prompt begins as another"}
	case same == len(a.Stages):
		return []string{"yes, in all stages: the bodies of the requests that both sent are equal"}
	}
	lines := []string{fmt.Sprintf("proved for %d of %d stages", same, len(a.Stages))}
	for _, answer := range answers {
		lines = append(lines, words.Shorten(names[answer], 1)+": "+answer)
	}
	return lines
}

// advice says what would make unclear changes clear, or "" if none is larger than the tolerance.
func advice(a *compare.Against) string {
	times := lists.Known(a.Differences(), func(d *compare.Difference) *float64 { return d.LengthFactor })
	if len(times) == 0 {
		return ""
	}
	slices.Sort(times)
	const shortest, longest = 1.1, 100
	text, half := fmt.Sprintf("Unclear changes beyond the tolerance: %d. ", len(times)), times[(len(times)-1)/2]
	if half > longest {
		return text + "Half of them are hardly beyond it, if at all: longer stages would not make them clear."
	}
	return text + fmt.Sprintf("Stages %.1f times as long would make half of them clear; three or more runs of each setting "+
		"show more.", max(half, shortest))
}
