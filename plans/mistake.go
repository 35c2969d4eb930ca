package plans

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong with a plan. It never carries the value of a secret.
type Mistake struct { //nolint:errname // the domain word: a person made it
	// Path of the plan's file, as it was given to Load.
	Path string
	// Line and Column of the mistake, both from 1. 0: not known.
	Line, Column int
	// Field in question, such as "loads[0].rate". Empty: the plan as a whole.
	Field string
	// Message says what was expected.
	Message string
}

// Error returns "path:line:column: field: message", without the parts that are not known.
func (m Mistake) Error() string {
	var b strings.Builder
	b.WriteString(m.Path)
	if m.Line > 0 {
		fmt.Fprintf(&b, ":%d", m.Line)
		if m.Column > 0 {
			fmt.Fprintf(&b, ":%d", m.Column)
		}
	}
	if m.Field != "" {
		b.WriteString(": " + m.Field)
	}
	b.WriteString(": " + m.Message)
	return b.String()
}

// Mistakes are all mistakes of a plan, in the order of their lines. It is an error if it is not empty.
type Mistakes []Mistake //nolint:errname // as Mistake

// mostShown keeps a message readable when a whole file is wrong.
const mostShown = 100

// Error returns one line for each mistake, up to a hundred.
func (ms Mistakes) Error() string {
	var lines []string
	for i, m := range ms {
		if i == mostShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(ms)-mostShown))
			break
		}
		lines = append(lines, m.Error())
	}
	return strings.Join(lines, "\n")
}

// sorted returns the mistakes by position, each once.
func (ms Mistakes) sorted() Mistakes {
	slices.SortStableFunc(ms, func(a, b Mistake) int {
		return cmp.Or(
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(ms)
}

// mistakesOrNil avoids the non-nil error that holds an empty list.
func mistakesOrNil(ms Mistakes) error {
	if len(ms) == 0 {
		return nil
	}
	return ms.sorted()
}
