package show

import (
	"fmt"
	"iter"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/headline"
)

// sections returns what people read of a comparison, a section for each side. all also has metrics that do not differ.
func sections(c *compare.Comparison, all bool) (sections []table.Section) {
	for i := range c.Sides {
		a := &c.Sides[i]
		var blocks []table.Block
		say := func(lines ...string) {
			for _, line := range lines {
				blocks = append(blocks, table.Block{Text: words.Printable(line)})
			}
		}
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
func left(how string, stages []compare.Left) (lines []string) {
	for _, s := range stages {
		lines = append(lines, words.Printable(how+s.Stage+": "+s.Why))
	}
	return lines
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
func gridOf(s *compare.Stage) string { return grid(s.Target, s.Workload) }

func answerGrid(a *compare.Answer) string { return grid(a.Target, a.Workload) }

// grid is the title of a table of a target and a workload. The target may be empty.
func grid(target, workload string) string {
	if target == "" {
		return words.Printable(workload)
	}
	return words.Printable(target) + ", " + words.Printable(workload)
}

// loadName names a stage within its table.
func loadName(s *compare.Stage) string {
	if s.Repeat != nil && *s.Repeat > 0 {
		return fmt.Sprintf("%s #%d", words.Printable(s.Load), *s.Repeat+1)
	}
	return words.Printable(s.Load)
}
