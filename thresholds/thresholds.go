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

// Threshold is a condition on the numbers of a stage, or of a part of its mixture. Parse returns it. It does not change
// and is safe for concurrent use.
type Threshold struct {
	part        string // Empty: the whole stage.
	left, right side
	compare     string // "<", "<=", ">", ">=", "=" or "!="
	text        bool   // both sides are texts
}

// UsesBaseline reports whether the condition compares a stage with that of a baseline.
func (t *Threshold) UsesBaseline() bool { return t.right.has(aBaseline) }

// sides are the two sides of a comparison, of one stage.
type sides struct {
	left, right value
	unknown     string // Why one of them is not known. Empty: both are.
}

// of calculates both sides. base is the record of the baseline, or why there is none.
func (t *Threshold) of(r *record, base baseline) sides {
	left, why := t.left.value(r, nil)
	if why != "" {
		return sides{unknown: why}
	}
	right, why := t.right.value(r, func() (value, string) {
		if base.record == nil {
			return value{}, base.why
		}
		v, why := t.left.value(base.record, nil)
		if why != "" {
			why = "in the baseline, " + why
		}
		return v, why
	})
	return sides{left, right, why}
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
