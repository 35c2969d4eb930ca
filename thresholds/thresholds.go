// Package thresholds decides whether the stages of a run meet conditions that a person sets: "ttft_ms.p99 < 500",
// "verdict = VALID", "tpot_ms.mean <= baseline * 1.03". The fields are those of a stage in results.json, or of a part of
// its mixture.
//
// The package is pure. Parse checks a condition before a run, and Evaluate compares it with the stages of a result. A
// value that is not known never passes, and neither does a stage whose numbers cannot be believed.
//
// The grammar is our own: it is one comparison, so that each outcome has a value beside its limit, words such as VALID
// need no quotes, and a null names the field that is not known. Libraries for expressions (CEL, expr-lang/expr) return
// only true or false, refuse a single "=", do not compare a whole number with a fraction, and name neither a field
// that is null nor the unit or the percent sign behind a number.
package thresholds

import (
	"fmt"
)

// Threshold is a condition on the numbers of a stage, or of a part of its mixture. Parse returns it. It does not change
// and is safe for concurrent use.
type Threshold struct {
	part        string // Empty: the whole stage.
	left, right *node
	compare     string // "<", "<=", ">", ">=", "=" or "!="
	text        bool   // both sides are texts
}

// Mistake is what is wrong with a condition.
type Mistake struct { //nolint:errname // the domain word, as in package plans
	// Column at which it is wrong, in characters from 1.
	Column int
	// Message says what was expected.
	Message string
}

// Error returns the message with its column.
func (m *Mistake) Error() string { return fmt.Sprintf("%s (at character %d)", m.Message, m.Column) }

// UsesBaseline reports whether the condition compares a stage with that of a baseline.
func (t *Threshold) UsesBaseline() bool { return t.left.usesBaseline() || t.right.usesBaseline() }

// sides are the two sides of a comparison, of one stage.
type sides struct {
	left, right value
	unknown     string // Why one of them is not known. Empty: both are.
}

// of calculates both sides. base is the record of the baseline, or why there is none.
func (t *Threshold) of(r *record, base baseline) sides {
	e := evaluation{record: r}
	e.base = func() (value, string) { return t.inBaseline(base) }
	left, why := t.left.value(e)
	if why != "" {
		return sides{unknown: why}
	}
	right, why := t.right.value(e)
	return sides{left, right, why}
}

// inBaseline returns what the word "baseline" stands for: the left side, in the record of the baseline.
func (t *Threshold) inBaseline(base baseline) (value, string) {
	if base.record == nil {
		return value{}, base.why
	}
	v, why := t.left.value(evaluation{record: base.record})
	if why != "" {
		why = "in the baseline, " + why
	}
	return v, why
}

// holds reports whether the comparison is true.
func (t *Threshold) holds(s sides) bool {
	if t.text {
		return (s.left.text == s.right.text) == (t.compare == "=")
	}
	a, b := s.left.number, s.right.number
	switch t.compare {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "=":
		return a == b
	}
	return a != b
}
