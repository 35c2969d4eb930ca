package show

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/tables"
)

// sections returns what people read of a comparison, a section for each side. all also has metrics that do not differ.
func sections(c *compare.Comparison, all bool) (sections []table.Section) {
	if c.Several {
		if sections = append(sections, several(c)); !all {
			return sections
		}
	}
	for a := range lists.Refs(c.Sides) {
		var blocks []table.Block
		say := func(lines ...string) { blocks = append(blocks, lists.Each(lines, said)...) }
		show := func(title string, t *table.Table, notes []string) {
			if len(t.Rows) > 0 {
				blocks = append(blocks, table.Block{Heading: title}, table.Block{Table: t})
				blocks = append(blocks, table.Notes(notes)...)
			}
		}
		say(headline.Compared(a, c.Baseline)...)
		say("Same requests: " + strings.Join(requests(a), "; "))
		for title, stages := range groups(a.Stages, gridOf) {
			show(title, stageTable(stages, "Load", loadName), marked(stages, loadName, stageMarks))
		}
		for title, answers := range groups(a.Answers, answerGrid) {
			show(title, answerTable(answers, answerName), marked(answers, answerName, answerMarks))
		}
		say(legend(c))
		show("Numbers (interval of each alone, p among all)", numberTable(a, all), nil)
		blocks = append(blocks, table.Notes(left("not compared: ", a.Refused))...)
		say(left("no counterpart: ", a.Unmatched)...)
		if words := advice(a); words != "" {
			say(words)
		}
		sections = append(sections, table.NewSection(words.Printable(a.Name+" against "+c.Baseline), blocks...))
	}
	return sections
}

// said is a line of what people read.
func said(line string) table.Block { return table.Block{Text: words.Printable(line)} }

func stageMarks(s *compare.Stage) []string   { return s.Marks }
func answerMarks(a *compare.Answer) []string { return a.Marks }

// marked returns what a reader must know of items, each with its name.
func marked[T any](items []T, name func(*T) string, marks func(*T) []string) (lines []string) {
	for i := range items {
		for _, mark := range marks(&items[i]) {
			lines = append(lines, words.Printable(name(&items[i])+": "+mark))
		}
	}
	return lines
}

// left describes stages that were left out.
func left(how string, stages []compare.Left) []string {
	return lists.Each(stages, func(s compare.Left) string { return words.Printable(how + s.Stage + ": " + s.Why) })
}

// groups returns the items of a list that follow one another and have the same title, by title.
func groups[T any](list []T, title func(*T) string) iter.Seq2[string, []T] {
	return func(yield func(string, []T) bool) {
		for len(list) > 0 {
			n := 1
			for n < len(list) && title(&list[n]) == title(&list[0]) {
				n++
			}
			if !yield(title(&list[0]), list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// gridOf is the title of the table that a stage is in. answerGrid is that of an answer.
func gridOf(s *compare.Stage) string {
	return words.Printable(words.Joined(", ", s.Target, s.Workload))
}

func answerGrid(a *compare.Answer) string {
	return words.Printable(words.Joined(", ", a.Target, a.Workload))
}

// loadName names a stage within its table.
func loadName(s *compare.Stage) string {
	if s.Repeat != nil && *s.Repeat > 0 {
		return fmt.Sprintf("%s #%d", words.Printable(s.Load), *s.Repeat+1)
	}
	return words.Printable(s.Load)
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
	return words.Printable(name)
}

// AnswerTitle names an answer among all.
func AnswerTitle(a *compare.Answer) string { return answerGrid(a) + ", " + answerName(a) }

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

// stageTable has a row for each stage, with the changes of some metrics. name names a stage in it.
func stageTable(stages []compare.Stage, head string, name func(*compare.Stage) string) *table.Table {
	t := table.New(table.Words(head), tables.ColumnsOf("changes"))
	for i := range t.Columns[1:] {
		t.Columns[1+i].Header += "  " // as wide as the marks
	}
	for s := range lists.Refs(stages) {
		row := t.Add(name(s))
		row.Mark = strings.Join(s.Marks, ", ")
		numbers := lists.Each(t.Columns[1:], func(c table.Column) table.Cell { return cell(s.Difference(c.Key)) })
		row.Cells = append(row.Cells, numbers...)
	}
	return t
}

// answerTable has a row for each answer. name names an answer in it.
func answerTable(answers []compare.Answer, name func(*compare.Answer) string) *table.Table {
	t := table.New(table.Words("Answer"), table.Numbers("Change", "Interval", "p", "Baseline"), table.Words("at"),
		table.Numbers("Value"), table.Words("at", "Outcome"))
	for a := range lists.Refs(answers) {
		d := &a.Difference
		row := t.Add(name(a), "", interval(d), probability(d.PAdjusted), value(d, d.Baseline), foundAt(a, a.BaselineRuns),
			value(d, d.Value), foundAt(a, a.Runs), outcome(d))
		row.Mark, row.Cells[1] = strings.Join(a.Marks, ", "), cell(d)
	}
	return t
}

// numberTable has a row for each number of a side that differs, or with all for every number.
func numberTable(a *compare.Against, all bool) *table.Table {
	t := table.New(table.Words("Stage", "Number"), table.Numbers("Change", "Interval", "p", "Baseline", "Value"),
		table.Words("Outcome"))
	for s := range lists.Refs(a.Stages) {
		for j := range s.Metrics {
			if d := &s.Metrics[j]; all || d.Outcome == compare.Worse || d.Outcome == compare.Better {
				row := t.Add(StageName(s), compare.TitleOf(d.Metric), change(d, d.Change), interval(d),
					probability(d.PAdjusted), value(d, d.Baseline), value(d, d.Value), outcome(d))
				row.Cells[2].Class = string(d.Outcome)
			}
		}
	}
	return t
}

// cell is a change with its mark, or the reason why it was not tested.
func cell(d *compare.Difference) table.Cell {
	if d == nil {
		return table.Cell{Text: "n/a", Mark: "  ", Class: string(compare.Untested), Note: "not measured"}
	}
	c := table.Cell{Text: change(d, d.Change), Mark: outcomes[d.Outcome], Class: string(d.Outcome)}
	if d.Outcome == compare.Untested {
		why, _, _ := strings.Cut(d.Why, ":") // the table of all numbers has the rest
		c.Note = words.Printable(strings.TrimPrefix(why, "there are "))
	}
	return c
}

// outcome is an outcome with its reason.
func outcome(d *compare.Difference) string {
	if d.Why == "" {
		return string(d.Outcome)
	}
	return string(d.Outcome) + ": " + words.Printable(d.Why)
}

// interval formats the interval of a difference.
func interval(d *compare.Difference) string {
	if d.Low == nil {
		return "n/a"
	}
	return change(d, d.Low) + " to " + change(d, d.High)
}
