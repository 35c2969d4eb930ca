package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/layout"
)

// markdown writes a comparison as Markdown.
func markdown(w io.Writer, c *compare.Comparison, all bool) error {
	var b strings.Builder
	for i := range c.Sides {
		a := &c.Sides[i]
		fmt.Fprintf(&b, "## %s against %s\n\n%s.\n\n", quoted(a.Name), quoted(c.Baseline), summary(a))
		fmt.Fprintf(&b, "Same requests: %s.\n", quoted(strings.Join(requests(a), "; ")))
		list(&b, "**%s**", a.Warnings)
		if len(a.Stages) > 0 {
			markdownTable(&b, a, c)
		}
		markdownDetails(&b, a, all)
		markdownAnswers(&b, a)
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

// markdownTable writes a table with a row for each stage.
func markdownTable(b *strings.Builder, a *compare.Against, c *compare.Comparison) {
	b.WriteString("\n| Stage |")
	for _, name := range headline {
		fmt.Fprintf(b, " %s |", titleOf(name))
	}
	b.WriteString("\n|:--|" + strings.Repeat("--:|", len(headline)) + "\n")
	for i := range a.Stages {
		s := &a.Stages[i]
		fmt.Fprintf(b, "| %s |", quoted(StageName(s))+attention(s))
		for _, name := range headline {
			fmt.Fprintf(b, " %s |", strings.TrimSpace(cell(find(s, name))))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "\n%s\n", legend(c))
	for i := range a.Stages {
		list(b, "**%s**", prefixed(StageName(&a.Stages[i])+": ", a.Stages[i].Marks))
	}
}

// markdownDetails writes a table of the numbers that differ, or with all of every number.
func markdownDetails(b *strings.Builder, a *compare.Against, all bool) {
	if !all && a.Count(compare.Worse)+a.Count(compare.Better) == 0 {
		return
	}
	b.WriteString("\n| Stage | Number | Baseline | Value | Change | Interval | p | Outcome |\n")
	b.WriteString("|:--|:--|--:|--:|--:|--:|--:|:--|\n")
	for i := range a.Stages {
		s := &a.Stages[i]
		for j := range s.Metrics {
			if d := &s.Metrics[j]; all || d.Outcome == compare.Worse || d.Outcome == compare.Better {
				fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", quoted(StageName(s)), titleOf(d.Metric),
					value(d, d.Baseline), value(d, d.Value), change(d, d.Change), interval(d), quoted(chanceOf(d)),
					d.Outcome)
			}
		}
	}
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
func quoted(s string) string {
	var b strings.Builder
	for _, r := range layout.Printable(s) {
		if strings.ContainsRune("\\`*_{}[]<>|#~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
