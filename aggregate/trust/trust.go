// Package trust judges a measurement: not the server, but whether the numbers about it can be believed.
//
// It is a pure function of what was measured. Package aggregate gathers the evidence, of a whole stage or of a stage so far; reports and sinks
// show the verdict. Each check compares one number with one or two limits and says what it saw; the worst check is the verdict. What
// is not known is not checked, and not counted as good.
package trust

import "fmt"

// Verdict says how far a stage's numbers can be believed.
type Verdict string

// Verdicts, from good to bad.
const (
	// Valid: every check that could be made was passed.
	Valid Verdict = "VALID"
	// Suspect: read the reasons before you use the numbers.
	Suspect Verdict = "SUSPECT"
	// Invalid: the numbers are not what they are called.
	Invalid Verdict = "INVALID"
)

// rank orders verdicts.
func (v Verdict) rank() int {
	switch v {
	case Invalid:
		return 2
	case Suspect:
		return 1
	case Valid:
	}
	return 0
}

// Number is the verdict as databases of time series keep it: 0 valid, 1 suspect, 2 invalid.
func (v Verdict) Number() uint64 { return uint64(v.rank()) }

// Trust is a verdict and what it rests on.
type Trust struct {
	// Verdict is that of the worst check.
	Verdict Verdict `json:"verdict"`
	// Checks are those that could be made, in a fixed order.
	Checks []Check `json:"checks"`
}

// Check is one number held against its limits.
type Check struct {
	// Name of the check: "completeness", "errors", ...
	Name string `json:"name"`
	// Verdict of this check alone.
	Verdict Verdict `json:"verdict"`
	// Value that was judged, in the unit of the limits.
	Value float64 `json:"value"`
	// Values above it are suspect. Null: none are.
	SuspectAbove *float64 `json:"suspect_above"`
	// Values above it are invalid. Null: none are.
	InvalidAbove *float64 `json:"invalid_above"`
	// What was seen, in words.
	Words string `json:"words"`
}

// Judge weighs the evidence.
func Judge(e Evidence) Trust {
	t := Trust{Verdict: Valid, Checks: []Check{}}
	for _, check := range checks {
		c, known := check.judge(e)
		if !known {
			continue
		}
		c.Name = check.name
		t.Checks = append(t.Checks, c)
		if c.Verdict.rank() > t.Verdict.rank() {
			t.Verdict = c.Verdict
		}
	}
	return t
}

// Reasons are the words of the checks that were not passed, the worst first.
func (t Trust) Reasons() (reasons []string) {
	for _, verdict := range []Verdict{Invalid, Suspect} {
		for _, c := range t.Checks {
			if c.Verdict == verdict {
				reasons = append(reasons, c.Words)
			}
		}
	}
	return reasons
}

// limits are what a value is held against.
type limits struct{ suspect, invalid float64 }

// held holds a value against its limits.
func (l limits) held(value float64, words string, args ...any) (Check, bool) {
	c := Check{Verdict: Valid, Value: value, SuspectAbove: &l.suspect, InvalidAbove: &l.invalid, Words: fmt.Sprintf(words, args...)}
	switch {
	case value > l.invalid:
		c.Verdict = Invalid
	case value > l.suspect:
		c.Verdict = Suspect
	}
	return c, true
}

// suspect holds a value against a limit beyond which it is suspect and never worse.
func suspect(limit, value float64, words string, args ...any) (Check, bool) {
	c := Check{Verdict: Valid, Value: value, SuspectAbove: &limit, Words: fmt.Sprintf(words, args...)}
	if value > limit {
		c.Verdict = Suspect
	}
	return c, true
}

// unknown is the outcome of a check that cannot be made.
func unknown() (Check, bool) { return Check{}, false }
