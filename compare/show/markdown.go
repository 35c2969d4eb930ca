package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/headline"
)

// markdown writes a comparison as Markdown.
func markdown(w io.Writer, c *compare.Comparison, all bool) error {
	var b strings.Builder
	for i := range c.Sides {
		a := &c.Sides[i]
		fmt.Fprintf(&b, "## %s against %s\n\n", quoted(a.Name), quoted(c.Baseline))
		for _, line := range headline.Compared(a, c.Baseline) {
			fmt.Fprintf(&b, "%s\n\n", quoted(line))
		}
		fmt.Fprintf(&b, "Same requests: %s.\n", quoted(strings.Join(requests(a), "; ")))
		if len(a.Stages) > 0 {
			b.WriteString("\n" + stageTable(a.Stages, "Stage", StageName).MarkdownRows() + "\n" + legend(c) + "\n")
			for i := range a.Stages {
				list(&b, "**%s**", stageMarks(&a.Stages[i]))
			}
		}
		if t := numberTable(a, all); len(t.Rows) > 0 {
			b.WriteString("\n" + t.MarkdownRows())
		}
		if len(a.Answers) > 0 {
			b.WriteString("\n" + answerTable(a.Answers, AnswerTitle).MarkdownRows())
			list(&b, "**%s**", answerMarks(a))
		}
		list(&b, "**not compared:** %s", left(a.Refused))
		list(&b, "no counterpart: %s", left(a.Unmatched))
		if words := advice(a); words != "" {
			fmt.Fprintf(&b, "\n%s\n", quoted(words))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// interval formats the interval of a difference.
func interval(d *compare.Difference) string {
	if d.Low == nil {
		return "n/a"
	}
	return change(d, d.Low) + " to " + change(d, d.High)
}

// chanceOf formats the probability that chance makes a difference.
func chanceOf(d *compare.Difference) string {
	if d.PAdjusted == nil {
		return "n/a"
	}
	return probability(*d.PAdjusted)
}

// list writes lines as a list.
func list(b *strings.Builder, format string, lines []string) {
	if len(lines) > 0 {
		b.WriteByte('\n')
	}
	for _, line := range lines {
		fmt.Fprintf(b, "* "+format+"\n", quoted(line))
	}
}

// quoted takes the meaning that Markdown gives to characters from words of plans and servers.
func quoted(s string) string { return table.Escape(words.Printable(s)) }
