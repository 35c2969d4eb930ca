package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong with a plan. It never holds the value of a secret.
type Mistake struct { //nolint:errname // the domain word: a person made it
	// Path of the plan's file, as given to Load. Empty: the plan is from flags.
	Path string
	// Line and Column of the mistake, both counted from 1. 0: not known.
	Line, Column int
	// Field that is wrong, such as "loads[0].rate". Empty: the whole plan.
	Field string
	// Message says what was expected.
	Message string
}

// Error returns "path:line:column: field: message", without the parts that are not known.
func (m Mistake) Error() string {
	where := m.Path
	if m.Path != "" && m.Line > 0 {
		where += fmt.Sprintf(":%d", m.Line)
		if m.Column > 0 {
			where += fmt.Sprintf(":%d", m.Column)
		}
	}
	return strings.Join(slices.DeleteFunc([]string{where, m.Field, m.Message}, func(part string) bool { return part == "" }), ": ")
}

// Mistakes are all mistakes of a plan, sorted by line. A non-empty Mistakes is an error.
type Mistakes []Mistake //nolint:errname // as Mistake

// mostShown bounds the lines of a message, so that people can read it even if a whole file is wrong.
const mostShown = 100

// Error returns one line for each mistake, at most a hundred.
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

// OrNil returns the mistakes by position, without duplicates, or nil if there are none: a Mistakes without elements
// would be a non-nil error.
func (ms Mistakes) OrNil() error {
	if len(ms) == 0 {
		return nil
	}
	slices.SortStableFunc(ms, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ms)
}
