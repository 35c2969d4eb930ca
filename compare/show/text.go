package show

import (
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/headline"
)

// text writes a comparison for a terminal.
func text(w io.Writer, c *compare.Comparison, width int, all bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Baseline: %s\n", words.Printable(c.Baseline))
	for i := range c.Sides {
		a := &c.Sides[i]
		b.WriteByte('\n')
		wrapped(&b, "", headline.Compared(a, c.Baseline), width)
		wrapped(&b, "Same requests: ", []string{strings.Join(requests(a), "; ")}, width)
		tables(&b, a, width)
		answersTables(&b, a, width)
		wrapped(&b, "", []string{legend(c)}, width)
		if t := numberTable(a, all); len(t.Rows) > 0 {
			writeTable(&b, "Numbers (interval of each alone, p among all)", t, width)
		}
		b.WriteByte('\n')
		wrapped(&b, "! not compared: ", left(a.Refused), width)
		wrapped(&b, "no counterpart: ", left(a.Unmatched), width)
		if words := advice(a); words != "" {
			wrapped(&b, "", []string{words}, width)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrapped writes lines, each after a mark, wrapped to width columns.
func wrapped(b *strings.Builder, mark string, lines []string, width int) {
	room := 0
	if width > 0 {
		room = max(1, width-len(mark))
	}
	for _, line := range lines {
		before := mark
		for _, part := range words.Wrap(words.Printable(line), room) {
			b.WriteString(before + part + "\n")
			before = strings.Repeat(" ", len(mark))
		}
	}
}

// left describes stages that were left out.
func left(stages []compare.Left) (lines []string) {
	for _, s := range stages {
		lines = append(lines, s.Stage+": "+s.Why)
	}
	return lines
}

// tables writes a table for each target and workload, with a row for each stage.
func tables(b *strings.Builder, a *compare.Against, width int) {
	for title, stages := range groups(a.Stages, gridOf) {
		writeTable(b, title, stageTable(stages, "Load", loadName), width)
		for i := range stages {
			wrapped(b, "! ", prefixed(loadName(&stages[i])+": ", stages[i].Marks), width)
		}
	}
}

// answersTables writes a table for each target and workload, with a row for each answer.
func answersTables(b *strings.Builder, a *compare.Against, width int) {
	for title, answers := range groups(a.Answers, answerGrid) {
		writeTable(b, title, answerTable(answers, answerName), width)
		for i := range answers {
			wrapped(b, "! ", prefixed(answerName(&answers[i])+": ", answers[i].Marks), width)
		}
	}
}

// writeTable writes a table with its title.
func writeTable(b *strings.Builder, title string, t *table.Table, width int) {
	b.WriteString("\n" + title + "\n")
	_ = t.Write(b, width) // a strings.Builder takes everything
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

// prefixed puts a prefix before each line.
func prefixed(prefix string, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = prefix + line
	}
	return out
}
