// Package trust judges a measurement: not the server, but whether the numbers about it can be believed.
//
// A verdict is a pure function of what was measured. Package aggregate gathers the evidence, of a whole stage or of a
// stage so far; reports and sinks show the verdict. Each check compares one number with one or two limits, and says
// what it saw and what to do about it. The worst check decides the verdict. What is not known is not checked, and does
// not count as good.
//
// A check fails where a number that is printed may be off by more than its precision, and names the numbers. Where only
// seldom printed numbers may be, or it is not sure, it gives a note.
//
// A new check needs a row in checks, a function, and a section in docs/verdicts.md.
package trust

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
)

// Verdict reports whether a stage's numbers can be believed.
type Verdict string

// Verdicts, from good to bad.
const (
	// Valid: all checks that could be made passed.
	Valid Verdict = "VALID"
	// Suspect: read the reasons before you use the numbers.
	Suspect Verdict = "SUSPECT"
	// Invalid: the numbers do not measure what their names say.
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

// Number returns the verdict for time series databases: 0 valid, 1 suspect, 2 invalid.
func (v Verdict) Number() uint64 { return uint64(v.rank()) }

// Worse returns the worse of two verdicts.
func (v Verdict) Worse(o Verdict) Verdict {
	if o.rank() > v.rank() {
		return o
	}
	return v
}

// Trust is a verdict and the checks behind it.
type Trust struct {
	// Verdict of the worst check.
	Verdict Verdict `json:"verdict"`
	// Checks that could be made, in a fixed order.
	Checks []Check `json:"checks"`
	// Notes about the load, in words. They are no reason to doubt the numbers.
	Notes []string `json:"notes"`
}

// Check is one number compared with its limits.
type Check struct {
	// Name of the check, such as "completeness" and "errors". docs/verdicts.md has a section of that name.
	Name string `json:"name"`
	// Verdict of this check alone.
	Verdict Verdict `json:"verdict"`
	// Value that was compared, in the unit of the limits.
	Value float64 `json:"value"`
	// Limit above which the value is suspect. Null: there is none.
	SuspectAbove *float64 `json:"suspect_above"`
	// Limit above which the value is invalid. Null: there is none.
	InvalidAbove *float64 `json:"invalid_above"`
	// What the check saw, in words.
	Words string `json:"words"`
	// Numbers that are doubtful for it, by their names in results.json: "ttft_ms" for all of a distribution,
	// "itl_ms.p99" for one of its numbers.
	Touches []string `json:"touches"`
	// What to do about it, in one line. Null: the check passed.
	Remedy *string `json:"remedy"`
}

// ofServer are the checks whose failure is the server's doing: the load was sent and measured correctly.
var ofServer = map[string]bool{
	"measured": true, "errors": true, "broken_sessions": true, "osl": true, "prefix_cache": true, "endpoints": true,
	"answers": true,
}

// OfServer reports whether a failure of the check is the server's doing, so that measuring again would show the same.
func (c Check) OfServer() bool { return ofServer[c.Name] }

// Judge makes all checks that the evidence allows, and returns them with the verdict and the notes.
func Judge(e Evidence) Trust {
	t := Trust{Verdict: Valid, Checks: []Check{}, Notes: notes(e)}
	for _, check := range checks {
		c, known := check.judge(e)
		if !known {
			continue
		}
		c.Name = check.name
		switch {
		case c.Verdict != Valid:
			c.Remedy = cmp.Or(c.Remedy, &check.remedy)
			if c.Touches == nil {
				c.Touches = check.touches
			}
		case len(c.Touches) > 0: // numbers that are printed seldom, or not surely
			c.Remedy = nil
			t.Notes = append(t.Notes, c.Words)
		default:
			c.Remedy, c.Touches = nil, []string{}
		}
		t.Checks = append(t.Checks, c)
		t.Verdict = t.Verdict.Worse(c.Verdict)
	}
	return t
}

// Doubts reports whether a check touches a number, by its name in results.json: "ttft_ms.p99", "request_throughput".
func (t Trust) Doubts(number string) bool {
	whole, _, _ := strings.Cut(number, ".")
	return slices.ContainsFunc(t.Checks, func(c Check) bool {
		return slices.Contains(c.Touches, number) || slices.Contains(c.Touches, whole)
	})
}

// Failed returns the checks that did not pass, the worst first.
func (t Trust) Failed() (failed []Check) {
	for _, verdict := range []Verdict{Invalid, Suspect} {
		failed = append(failed, lists.Where(t.Checks, func(c Check) bool { return c.Verdict == verdict })...)
	}
	return failed
}

// Reasons returns the words of the checks that did not pass, the worst first.
func (t Trust) Reasons() (reasons []string) {
	return lists.Each(t.Failed(), func(c Check) string { return c.Words })
}

// Unmeasured returns, in words, why the measurement itself is invalid. It is empty if only checks of the server failed,
// or none.
func (t Trust) Unmeasured() string {
	own := lists.Where(t.Checks, func(c Check) bool { return c.Verdict == Invalid && !c.OfServer() })
	return strings.Join(Trust{Checks: own}.Reasons(), "; ")
}

// limits are the two limits of a check.
type limits struct{ suspect, invalid float64 }

// held compares a value with its limits.
func (l limits) held(value float64, words string, args ...any) (Check, bool) {
	c := Check{Verdict: Valid, Value: value, SuspectAbove: &l.suspect, InvalidAbove: &l.invalid,
		Words: fmt.Sprintf(words, args...)}
	switch {
	case value > l.invalid:
		c.Verdict = Invalid
	case value > l.suspect:
		c.Verdict = Suspect
	}
	return c, true
}

// suspect compares a value with a limit above which it is suspect, but never invalid.
func suspect(limit, value float64, words string, args ...any) (Check, bool) {
	c := Check{Verdict: Valid, Value: value, SuspectAbove: &limit, Words: fmt.Sprintf(words, args...)}
	if value > limit {
		c.Verdict = Suspect
	}
	return c, true
}

// unknown returns the result of a check that cannot be made.
func unknown() (Check, bool) { return Check{}, false }

// endedLate is in the note about late ends of responses.
const endedLate = " responses ended late, "

// OfLateEnds reports whether a note is about late ends of responses.
func OfLateEnds(note string) bool { return strings.Contains(note, endedLate) }

// notes returns what is worth knowing about the load but does not make the numbers doubtful. Stages with the same note
// have the same words except for numbers, so that reports can name the stages together.
func notes(e Evidence) []string {
	all := []string{}
	if inWaves(e) {
		all = append(all, wavesNote)
	}
	if e.Closed != nil && e.Ended && e.Closed.Lowered > NotableShare && e.Counts[measure.Failed] == 0 {
		all = append(all, fmt.Sprintf("ramp-up and drain lower the throughput by %.3g %%: in between, with all requests in "+
			"flight, it is higher; longer stages lose less", 100*e.Closed.Lowered))
	}
	for _, note := range []string{silence(e), cmp.Or(behind(e), shifted(e)), heldBack(e)} {
		if note != "" {
			all = append(all, note)
		}
	}
	if n := e.Counts[measure.Reconnected]; n > 0 {
		all = append(all, fmt.Sprintf("%d of %d requests were sent once more, on a new connection, because the server closed "+
			"a kept one before it answered; their times count from the first try: to avoid that, raise the server's "+
			"keep-alive timeout, or set connection: {reuse: new}", n, e.Counts[measure.Started]))
	}
	if c := &e.Counts; c[measure.GarbledAnswers]+c[measure.EmptyAnswers] > 0 {
		all = append(all, fmt.Sprintf("of %d answers %d are garbled (replacement characters, or one token over and over), and "+
			"%d have no text: look whether that is the model's doing or the load's", c[measure.Completed],
			c[measure.GarbledAnswers], c[measure.EmptyAnswers]))
	}
	if c, quiet := &e.Counts, e.canaries(); c[measure.Canaries]+c[measure.CanariesFailed] > 0 {
		first := ""
		if n := c[measure.CanariesDiffering]; n > 0 {
			first = fmt.Sprintf(" from word %.1f on, on average", 1+share(c[measure.CanaryWordsAlike], n))
		}
		all = append(all, fmt.Sprintf("%d canaries went beside the requests and are in no number of theirs; %d of them failed, "+
			"%d differ from the quiet answers (%d of %d when quiet)%s, and %d of %d tasks were answered right (%d of %d when quiet)",
			c[measure.Canaries]+c[measure.CanariesFailed], c[measure.CanariesFailed], c[measure.CanariesDiffering],
			quiet.QuietDiffering, quiet.QuietAsked, first, c[measure.CanaryTasksRight], c[measure.CanaryTasks],
			quiet.QuietRight, quiet.QuietTasks))
	}
	if late := e.Summaries[metricLateEnd]; late != nil {
		all = append(all, fmt.Sprintf("%d of %d"+endedLate+"%.4g ms after their last event in the median and %.4g ms at "+
			"most: no number includes that time, and it delayed no request", e.Counts[measure.LateEnds],
			e.Counts[measure.Started], late.P50, late.Max))
	}
	return all
}

// heldBack says what max_in_flight held back and for how long, or returns "" if it held nothing back.
func heldBack(e Evidence) string {
	held, unsent := e.Summaries[metricHeld], uint64(0)
	if e.NeverSent != nil {
		unsent = *e.NeverSent - e.afterFailure()
	}
	if e.MaxInFlight == 0 || held == nil && unsent == 0 {
		return ""
	}
	words := fmt.Sprintf("max_in_flight %d held back", e.MaxInFlight)
	if held != nil {
		words += fmt.Sprintf(" %d of %d requests, for %.4g s on average and %.4g s at most", held.Count,
			e.Counts[measure.Started], held.Mean/msPerSecond, held.Max/msPerSecond)
	}
	if unsent > 0 {
		if held != nil {
			words += ", and"
		}
		words += fmt.Sprintf(" %d until the end, which were never sent", unsent)
	}
	return words + ": latencies count from when a request was sent, those from the schedule from when it was due"
}

// msPerSecond is the number of milliseconds, the unit of summaries of times, in a second.
const msPerSecond = 1000

// NotableShare is the share from which on it is worth a note that ramp-up and drain lower a throughput.
const NotableShare = 0.05

const (
	// waves is the limit above which the starts of a closed loop count as waves: the standard deviation of the gaps
	// between starts divided by their mean. It is 1 for random starts.
	waves     = 2
	wavesNote = "requests started in waves: answers of equal length end together, so the next requests start " +
		"together, and their TTFT includes waiting for each other's prefill; " +
		"to spread the starts, set stagger in the load"
)

// inWaves reports whether a closed loop ran in lock-step. Outputs of one length end together, so the next requests
// start together. Then requests queue behind each other for their prefill, and TTFT is that of a wave. The burst at the
// start of a stage bunches the starts, too; with ten requests per slot, its effect is below the limit.
func inWaves(e Evidence) bool {
	const fewest, rounds = 8, 4
	gap := e.Summaries[metricStartGap]
	if e.Closed == nil || !e.Ended || gap == nil || gap.Mean <= 0 || e.Closed.Concurrency < fewest ||
		e.Counts[measure.Started] < rounds*e.Closed.Concurrency {
		return false
	}
	return gap.Std/gap.Mean > waves
}
