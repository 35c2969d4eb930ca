package lifecycle

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// SteadyWindows is the number of whole windows by which steadiness is judged.
const SteadyWindows = 10

const (
	// steadyDrift is the largest difference between the means of the two halves, relative to the earlier one.
	steadyDrift = 0.05
	// steadySpread is the largest coefficient of variation of all windows.
	steadySpread = 0.5
)

// steady reports whether a throughput, given window by window, has reached its level. Of the last ten windows, the mean
// of the later five must be within 5 % of the mean of the earlier five, and the standard deviation of all ten at most
// half their mean. The first condition catches a ramp. The second catches a load that comes in bursts or has hardly
// begun, whose halves are alike only by chance.
//
// A drift slower than 1 % a second counts as steady. With few requests in flight, throughput varies much from second to
// second, and two halves are alike only by chance. For both reasons such a warm-up has a longest duration.
func steady(windows []uint64) bool {
	if len(windows) < SteadyWindows {
		return false
	}
	windows = windows[len(windows)-SteadyWindows:]
	earlier, later := mean(windows[:SteadyWindows/2]), mean(windows[SteadyWindows/2:])
	whole := (earlier + later) / 2
	if earlier == 0 || math.Abs(later-earlier) > steadyDrift*earlier {
		return false
	}
	squares := lists.Sum(windows, func(w uint64) float64 { return (float64(w) - whole) * (float64(w) - whole) })
	return math.Sqrt(squares/SteadyWindows) <= steadySpread*whole
}

// mean returns the arithmetic mean.
func mean(windows []uint64) float64 {
	sum := lists.Sum(windows, func(w uint64) uint64 { return w })
	return float64(sum) / float64(len(windows))
}

// View is the part of what was merged of the stage in progress that rules need.
type View struct {
	// StageIndex is the index of the stage.
	StageIndex uint32
	// Ended counts the measured requests that completed or failed so far, Failed those that failed.
	Ended, Failed uint64
	// Frames counts the frames of unmeasured requests in each of the newest windows that all agents have delivered,
	// oldest first. SteadyWindows windows are enough.
	Frames []uint64
	// Percentile is the percentile that the stage's precision rule names. Nil: there is no rule, or too few values for
	// an interval.
	Percentile *Interval
}

// Interval is a percentile with its confidence interval.
type Interval struct {
	Value, Low, High time.Duration
	// Count is the number of values.
	Count uint64
}

// A stage is hopeless when more than hopelessShare of at least hopelessAfter requests have failed.
const (
	hopelessAfter = 100
	hopelessShare = 0.9
)

// hopeless returns why the target of a stage is hopeless. Empty: it is not, or the plan has its own abort rule for
// errors.
func hopeless(st *spatev1.Stage, v View) string {
	if own := st.GetLoad().GetAbort(); !st.GetFailFast() || own != nil && own.ErrorShare != nil {
		return ""
	}
	if v.Ended < hopelessAfter || float64(v.Failed) <= hopelessShare*float64(v.Ended) {
		return ""
	}
	return reason.HopelessTarget(st.GetTarget().GetName(), fmt.Sprintf("%d of %d requests failed", v.Failed, v.Ended))
}

// tooManyErrors returns why a stage must be aborted, empty if it need not.
func tooManyErrors(rule *spatev1.Abort, v View) string {
	if rule == nil || rule.ErrorShare == nil || v.Ended < max(1, rule.GetAfterRequests()) {
		return ""
	}
	if share := float64(v.Failed) / float64(v.Ended); share > rule.GetErrorShare() {
		return fmt.Sprintf(abortedPrefix+"%d of %d requests failed, %.3g %% > %.3g %%", v.Failed, v.Ended, 100*share,
			100*rule.GetErrorShare())
	}
	return ""
}

// preciseEnough returns why a stage has measured enough, empty if it has not. The interval is checked repeatedly during
// the stage, so an early end by chance is more likely than its confidence says. The rule only says when to stop; the
// stage's result has the interval at its end.
func preciseEnough(rule *spatev1.Precision, p *Interval) string {
	if rule == nil || p == nil || p.Value <= 0 {
		return ""
	}
	half := float64(p.High-p.Low) / 2 / float64(p.Value)
	if half > rule.GetWithin() {
		return ""
	}
	return fmt.Sprintf("%s %s is known to ±%.2g %%: %s to %s with %.4g %% confidence, from %d values",
		loadpoint.LatencyWords(rule.GetMetric(), rule.GetPercentile()), loadpoint.Milliseconds(p.Value), 100*half,
		loadpoint.Milliseconds(p.Low), loadpoint.Milliseconds(p.High), 100*rule.GetConfidence(), p.Count)
}

// abortedPrefix is the prefix of the reasons of abort rules.
const abortedPrefix = "aborted: "

// AbortReason returns why an abort rule ended a probe of a search, from the probe's record. Empty: no rule did.
func AbortReason(rec *spatev1.StageRecord) string {
	if reason := rec.GetEnough(); strings.HasPrefix(reason, abortedPrefix) {
		return reason
	}
	return ""
}
