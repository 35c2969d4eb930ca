package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/layout"
)

// answerHead names the columns of answers; text has the first answerColumns of them, as many as there is room for.
var answerHead = []string{"Answer", "Change", "Baseline", "at", "Value", "at", "Interval", "p", "Outcome"}

const answerColumns = 6

// answerRow returns the cells of an answer.
func answerRow(a *compare.Answer) []string {
	d := &a.Difference
	name := answerName(a)
	if len(a.Marks) > 0 {
		name += " !"
	}
	outcome := string(d.Outcome)
	if d.Why != "" {
		outcome += ": " + layout.Printable(d.Why)
	}
	return []string{name, cell(d), value(d, d.Baseline), foundAt(a, a.BaselineRuns), value(d, d.Value),
		foundAt(a, a.Runs), interval(d), chanceOf(d), outcome}
}

// answerName names an answer among those of its target and workload.
func answerName(a *compare.Answer) string {
	name := strings.ReplaceAll(string(a.Kind), "_", " ")
	switch {
	case a.Latency != "":
		name += ": req/s / " + a.Latency
	case a.Objectives != "":
		name += ": " + a.Objectives
	}
	if a.Part != "" {
		name += ", part " + a.Part
	}
	return layout.Printable(name)
}

// AnswerTitle names an answer among all.
func AnswerTitle(a *compare.Answer) string {
	return grid(a.Target, a.Workload) + ", " + answerName(a)
}

// foundAt says at which load an answer was found, or which load was too high.
func foundAt(a *compare.Answer, runs []compare.Found) string {
	var loads []float64
	for _, f := range runs {
		switch {
		case a.Kind != compare.HighestLoad:
			loads = append(loads, f.Load)
		case f.Broke == nil:
			return "none too high"
		default:
			loads = append(loads, *f.Broke)
		}
	}
	least, most := slices.Min(loads), slices.Max(loads)
	words := fmt.Sprintf("%.4g", least)
	if most > least {
		words += fmt.Sprintf(" to %.4g", most)
	}
	switch {
	case a.Kind == compare.HighestLoad:
		return words + " too high"
	case a.LoadUnit == "concurrency":
		return words + " in flight"
	}
	return words + " req/s"
}

// answerMarks returns what a reader must know of answers.
func answerMarks(a *compare.Against) (lines []string) {
	for i := range a.Answers {
		lines = append(lines, prefixed(AnswerTitle(&a.Answers[i])+": ", a.Answers[i].Marks)...)
	}
	return lines
}

// answersTables writes a table for each target and workload, with a row for each answer.
func answersTables(b *strings.Builder, a *compare.Against, width int) {
	for from := 0; from < len(a.Answers); {
		of := &a.Answers[from]
		title := grid(of.Target, of.Workload)
		fmt.Fprintf(b, "\n%s\n", title)
		t := &layout.Table{Right: []bool{false, true, true, false, true, false}}
		t.Row(answerHead[:answerColumns]...)
		first := from
		for ; from < len(a.Answers) && grid(a.Answers[from].Target, a.Answers[from].Workload) == title; from++ {
			t.Row(answerRow(&a.Answers[from])[:answerColumns]...)
		}
		t.Narrow(width)
		_ = t.Write(b) // a strings.Builder takes everything
		for i := first; i < from; i++ {
			wrapped(b, "! ", prefixed(answerName(&a.Answers[i])+": ", a.Answers[i].Marks), width)
		}
	}
}

// markdownAnswers writes a table with a row for each answer.
func markdownAnswers(b *strings.Builder, a *compare.Against) {
	if len(a.Answers) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| Target, workload | %s |\n|:--|:--|%s:--|\n", strings.Join(answerHead, " | "),
		strings.Repeat("--:|", len(answerHead)-2))
	for i := range a.Answers {
		cells := []string{grid(a.Answers[i].Target, a.Answers[i].Workload)}
		for _, cell := range append(cells, answerRow(&a.Answers[i])...) {
			fmt.Fprintf(b, "| %s ", quoted(strings.TrimSpace(cell)))
		}
		b.WriteString("|\n")
	}
	list(b, "**%s**", answerMarks(a))
}
