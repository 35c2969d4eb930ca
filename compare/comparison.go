package compare

import (
	"fmt"
	"slices"

	"github.com/spate-load/spate/internal/lists"
)

// Comparison is the outcome of comparing sides with the first of them, the baseline.
type Comparison struct {
	// Largest relative difference that does not matter, 0 to 1.
	Tolerance float64 `json:"tolerance"`
	// Confidence of the intervals, and 1 - the chance of any false alarm.
	Confidence float64 `json:"confidence"`
	// Name of the baseline.
	Baseline string `json:"baseline"`
	// Each other side against the baseline.
	Sides []Against `json:"sides"`
	// Several: the sides are to be shown in one table. Absent: two runs of Spate are compared.
	Several bool `json:"several,omitempty"`
	// Rows says which runs those sides are that are named after targets.
	Rows []string `json:"rows,omitempty"`
}

// Against is one side against the baseline.
type Against struct {
	// Name of the side.
	Name string `json:"name"`
	// Tool that wrote the side's files. Absent: Spate. Its numbers are compared with the baseline's by its definitions.
	Tool string `json:"tool,omitempty"`
	// What makes the numbers of the two mean different things, in words.
	Warnings []string `json:"warnings"`
	// Stages of both that were compared.
	Stages []Stage `json:"stages"`
	// Answers of frontiers and searches of both.
	Answers []Answer `json:"answers"`
	// Stages and answers of both that were not compared because their numbers cannot be believed, with the reason.
	Refused []Left `json:"refused"`
	// Stages and answers of one without a counterpart in the other.
	Unmatched []Left `json:"unmatched"`
}

// Left is a stage or an answer that was left out.
type Left struct {
	// What was asked, in words.
	Stage string `json:"stage"`
	// Why it was left out.
	Why string `json:"why"`

	inBaseline bool // only the baseline has it
}

// Method is how chance was judged.
type Method string

// Methods.
const (
	// Blocks: by how much the two stages vary over their time.
	Blocks Method = "blocks"
	// Repeats: by how much three or more repeats of a stage differ from one another.
	Repeats Method = "repeats"
	// Turns: repeats of targets of the same runs, with what changed over time taken out.
	Turns Method = "turns"
	// None: there are no request rows and no repeats.
	None Method = "none"
)

// Stage compares one stage, or its repeats, with the baseline's.
type Stage struct {
	// Target as the baseline names it; empty if sides are targets. Workload and load as in the plan.
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Load     string `json:"load"`
	// Number of the repeat, from 0; null: repeats were compared as a whole.
	Repeat *uint32 `json:"repeat"`
	// Stages compared, of the baseline and of the side: indices in their results.
	BaselineStages []uint32 `json:"baseline_stages"`
	Stages         []uint32 `json:"stages"`
	// Marks that a reader must see: verdicts that are not VALID, missing parts, different lengths.
	Marks []string `json:"marks"`
	// Whether both were sent the same requests.
	Requests Sameness `json:"requests"`
	// How chance was judged.
	Method Method `json:"method"`
	// Mean time of a request relative to the stage, and length of the longest block, in seconds; null: other method.
	BlockS *float64 `json:"block_s"`
	// Drift of both targets, if they are of the same runs. Null: not known.
	Drift *Drift `json:"drift"`
	// Metrics that both have.
	Metrics []Difference `json:"metrics"`
}

// Claim returns the number that decides on what the baseline claims of stages that ran again: one that is worse, or
// else the time for a token, or else for an answer. Nil: they have none of these.
func (s *Stage) Claim() (by *Difference) {
	var worse *Difference
	for d := range lists.Refs(s.Metrics) {
		if by == nil && slices.Contains(driftMetrics, d.Metric) {
			by = d
		}
		if worse == nil && d.Outcome == Worse {
			worse = d
		}
	}
	if worse != nil && (by == nil || by.Outcome != Worse) {
		return worse
	}
	return by
}

// How often stages run again at least before it is asked whether a claim holds, and at most while that is open.
const (
	FewestRounds = 4
	MostRounds   = 12
)

// Open reports whether chance leaves open if a claim holds.
func (a *Against) Open() bool {
	return slices.ContainsFunc(a.Stages, func(s Stage) bool {
		by := s.Claim()
		return by == nil || by.Outcome == Unclear || by.Outcome == Untested
	})
}

// Outcome says what a difference means.
type Outcome string

// Outcomes.
const (
	// Worse: beyond the tolerance, and not by chance.
	Worse Outcome = "worse"
	// Better: beyond the tolerance, and not by chance.
	Better Outcome = "better"
	// Same: the interval lies within the tolerance.
	Same Outcome = "same"
	// Unclear: chance may have made the difference, or hidden one.
	Unclear Outcome = "unclear"
	// Untested: there is too little data to tell.
	Untested Outcome = "untested"
)

// Difference is one number of a stage against the baseline's. Changes are relative to the baseline (0.03: 3 % more), or
// in points for shares.
type Difference struct {
	// Name of the metric as in results.json.
	Metric string `json:"metric"`
	// Unit of the values; empty: a share.
	Unit string `json:"unit"`
	// Baseline and Value are the two numbers; means over the repeats, if repeats were compared, and their medians if
	// there are several sides.
	Baseline float64 `json:"baseline"`
	Value    float64 `json:"value"`
	// Change from the baseline. Null: the baseline is 0, or so near to it that the change is not a number. Of targets
	// that ran in turns it is without Drift, by how much a steady change over time alone moves the two numbers apart.
	Change *float64 `json:"change"`
	Drift  *float64 `json:"drift,omitempty"`
	// Low and High are the ends of the change's confidence interval, for this metric alone. Null: untested.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// P is the probability that chance makes such a change if the true one is within the tolerance; PAdjusted the same
	// among all metrics and stages of the comparison (Holm). Null: untested.
	P         *float64 `json:"p"`
	PAdjusted *float64 `json:"p_adjusted"`
	// Outcome says what the change means.
	Outcome Outcome `json:"outcome"`
	// Why the metric is untested, or unclear although the two numbers differ by more than chance; empty: neither.
	Why string `json:"why,omitempty"`
	// Detectable is the smallest change that these stages would have shown four times in five. Null: untested.
	Detectable *float64 `json:"detectable"`
	// LengthFactor is how many times as long the stages must be to show a change of this size. Null: the change is
	// within the tolerance, or is already shown, or is untested.
	LengthFactor *float64 `json:"length_factor"`

	test *test
}

// Difference returns the difference of a metric. Nil: one of the sides does not have it.
func (s *Stage) Difference(metric string) *Difference {
	return lists.First(s.Metrics, func(d *Difference) bool { return d.Metric == metric })
}

// Differences returns the differences of all stages, then those of all answers.
func (a *Against) Differences() (all []*Difference) {
	for i := range a.Stages {
		for j := range a.Stages[i].Metrics {
			all = append(all, &a.Stages[i].Metrics[j])
		}
	}
	for i := range a.Answers {
		all = append(all, &a.Answers[i].Difference)
	}
	return all
}

// Counts returns how many differences of all stages and answers have each outcome.
func (a *Against) Counts() map[Outcome]int {
	counts := map[Outcome]int{}
	for _, d := range a.Differences() {
		counts[d.Outcome]++
	}
	return counts
}

// Gaps returns in words which stages and answers of the baseline were not compared, or "".
func (a *Against) Gaps() string {
	missing := lists.Count(a.Unmatched, func(l Left) bool { return l.inBaseline })
	switch {
	case len(a.Refused) > 0:
		return fmt.Sprintf("stages and answers INVALID or incomplete and not compared: %d", len(a.Refused))
	case missing > 0:
		return fmt.Sprintf("stages and answers of the baseline that %s lacks: %d", a.Name, missing)
	}
	return ""
}

// Tested reports whether any number was tested, so that the comparison can tell better from worse.
func (a *Against) Tested() bool { return a.Counts()[Untested] < len(a.Differences()) }

// Count returns how many differences of all sides have an outcome.
func (c *Comparison) Count(o Outcome) int {
	return lists.Sum(c.Sides, func(a Against) int { return a.Counts()[o] })
}
