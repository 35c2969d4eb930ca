package headline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/words"
)

// rankings are the numbers by which the best of several runs is found, each with its title and what the best has.
var rankings = [][3]string{{"output tok/s", "output_token_throughput", "the most"}, {"req/s", "request_throughput", "the most"},
	{"mean E2E", "e2e_ms.mean", "the lowest"}}

// ranked returns how the runs of a comparison and other tools' differ by the first number that tells runs apart, or
// else by the first that they have, the best first.
func ranked(c *compare.Comparison) (all []*moved, by [3]string) {
	for _, of := range rankings {
		var some []*moved
		told := false
		for i := range c.Sides {
			if m := movedBy(&c.Sides[i], of[1]); m != nil {
				some = append(some, m)
				told = told || m.side.Tool == "" && m.outcomes[compare.Better]+m.outcomes[compare.Worse] > 0
			}
		}
		if told || all == nil {
			all, by = some, of
		}
		if told {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b *moved) int {
		if by[2] == "the most" {
			a, b = b, a
		}
		return cmp.Compare(a.mean, b.mean)
	})
	return all, by
}

// words says by how much a side changes, means what the changes mean.
func (m *moved) words() string {
	return fmt.Sprintf("%s %s (%s)", m.side.Name, span(m.low, m.high), m.means())
}

func (m *moved) means() string {
	if m.n > 1 {
		return outcomeWords(m.outcomes)
	}
	return strings.TrimPrefix(outcomeWords(m.outcomes), "1 ")
}

// Best returns the answer of a comparison of several runs: which is the best, whether that is shown, and how the others
// differ from the baseline.
func Best(c *compare.Comparison) *results.Headline {
	w := &writer{Headline: &results.Headline{Verdict: new(Unclear)}}
	runs := 1
	for i := range c.Sides {
		if a := &c.Sides[i]; a.Tool == "" {
			runs++
			for _, of := range doubts(a, "") {
				w.doubt("%s: %s", a.Name, of)
			}
		}
	}
	all, by := ranked(c)
	var best *moved
	var others, tools []string
	for _, m := range all {
		switch {
		case m.side.Tool != "":
			tools = append(tools, m.words())
		case best == nil:
			best = m
			w.best(c.Baseline, m, by, runs)
		default:
			if others = append(others, m.words()); len(others) == 1 && m.from != nil && best.from != nil &&
				*m.to >= *best.from && *best.to >= *m.from {
				w.doubt("the intervals of %s and %s overlap: compare these two", best.side.Name, m.side.Name)
			}
		}
	}
	if others != nil {
		w.say("Others: %s", words.Shorten(others, 2*most))
	}
	if tools != nil {
		w.say("Other tools against %s, %s: %s", c.Baseline, by[0], words.Shorten(tools, most))
	}
	if len(w.doubts) > 0 {
		w.Doubt = new(strings.Join(w.doubts[:min(len(w.doubts), most)], "; ") + ".")
	}
	return w.Headline
}

// best says what the best of several runs is shown to be.
func (w *writer) best(baseline string, m *moved, by [3]string, runs int) {
	text := fmt.Sprintf("%s %s against %s", span(m.low, m.high), by[0], baseline)
	if m.from != nil {
		text += fmt.Sprintf(" (%s)", span(*m.from, *m.to))
	}
	text += fmt.Sprintf(" at %s: %s", m.where, m.means())
	switch w.Verdict = new(Verdict(m.side)); {
	case m.outcomes[compare.Better] > 0 && m.outcomes[compare.Worse] == 0:
		w.say("%s is the best of %d runs: %s", m.side.Name, runs, text)
	case m.outcomes[compare.Worse] == m.n:
		w.say("%s, the baseline, is the best of %d runs; the next, %s, has %s", baseline, runs, m.side.Name, text)
	default:
		w.say("No run of %d is shown to be better than %s; %s has %s, %s", runs, baseline, m.side.Name, by[2], text)
	}
}
