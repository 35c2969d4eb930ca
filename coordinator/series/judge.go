package series

import (
	"fmt"
	"math"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// metrics are the latencies that plans name.
var metrics = map[string]struct {
	metric spatev1.Metric
	words  string
}{
	"ttft":           {spatev1.Metric_METRIC_TTFT, "TTFT"},
	"tpot":           {spatev1.Metric_METRIC_TPOT, "TPOT"},
	"itl":            {spatev1.Metric_METRIC_ITL, "ITL"},
	"e2e":            {spatev1.Metric_METRIC_E2E, "E2E"},
	"ttft_scheduled": {spatev1.Metric_METRIC_TTFT_SCHEDULED, "TTFT from schedule"},
	"e2e_scheduled":  {spatev1.Metric_METRIC_E2E_SCHEDULED, "E2E from schedule"},
}

// Metric returns the metric that a plan's Limit or Precision names. Unspecified: no such name.
func Metric(name string) spatev1.Metric { return metrics[name].metric }

// LatencyWords names a percentile of a latency for people: "p99 TTFT". Percentile 0 is the mean.
func LatencyWords(metric string, percentile float64) string {
	if percentile == 0 {
		return "mean " + metrics[metric].words
	}
	return "p" + number(percentile) + " " + metrics[metric].words
}

// Judge says whether an outcome keeps objectives, by the values as they were measured, and else which one broke first,
// with its numbers. A value that is not known keeps nothing: a stage in which no request completed has broken every
// limit.
func Judge(keep *spatev1.Objectives, o Outcome) (kept bool, reason string) {
	if o.GaveUp != "" {
		return false, o.GaveUp
	}
	if o.Completed == 0 {
		return false, fmt.Sprintf("no request completed, %d failed, %d were cut off", o.Failed, o.Cancelled)
	}
	for i, limit := range keep.GetLatencies() {
		var value *time.Duration
		if i < len(o.Latencies) {
			value = o.Latencies[i]
		}
		if reason := overLimit(limit, value, o); reason != "" {
			return false, reason
		}
	}
	ended := o.Completed + o.Failed + o.Cancelled
	if most := keep.ErrorShare; most != nil {
		if share := float64(o.Failed) / float64(o.Completed+o.Failed); share > *most {
			return false, fmt.Sprintf("error share %s > %s", percent(share), percent(*most))
		}
	}
	if least := keep.Goodput; least != nil {
		if share := float64(o.Good) / float64(ended); share < *least {
			return false, fmt.Sprintf("goodput %s < %s", percent(share), percent(*least))
		}
	}
	return true, ""
}

// overLimit says how a latency breaks its limit. Empty: it does not.
func overLimit(limit *spatev1.Limit, value *time.Duration, o Outcome) string {
	name, most := LatencyWords(limit.GetMetric(), limit.GetPercentile()), limit.GetAtMost().AsDuration()
	switch {
	case value != nil && *value <= most:
		return ""
	case value != nil:
		return fmt.Sprintf("%s %s > %s", name, Milliseconds(*value), Milliseconds(most))
	case o.Cancelled > 0:
		return fmt.Sprintf("%s is not known: %d of %d requests were cut off at the end of the drain",
			name, o.Cancelled, o.Completed+o.Failed+o.Cancelled)
	}
	return name + " is not known: no request has one"
}

// Milliseconds is a latency for people, to the hundredth.
func Milliseconds(d time.Duration) string {
	return number(math.Round(float64(d)/float64(10*time.Microsecond))/100) + " ms"
}

// unmeasured says why an outcome tells nothing of the server. Empty: it does. Requests that were never sent are of the
// agents' making: with more than the tolerance of them the load was not the one asked for.
func unmeasured(o Outcome, tolerance float64) string {
	if o.Unmeasured != "" {
		return o.Unmeasured
	}
	if owed := o.Completed + o.Failed + o.Cancelled + o.NeverSent; float64(o.NeverSent) > tolerance*float64(owed) {
		return fmt.Sprintf("%d of %d requests were never sent: the agents could not start them in time",
			o.NeverSent, owed)
	}
	return ""
}

// backlogDoubt is how many standard deviations a backlog must grow beyond chance.
const backlogDoubt = 3.5

// sustained says whether an open loop's server kept up with the rate, and else how it did not. Latency limits alone do
// not tell: a queue that grows without end needs time to show in a percentile, and in TPOT it may never show at all.
//
// The server did not keep up if two things hold in the second half of the measured part (in the first half the number
// in flight may still be on its way to its level). Fewer requests ended than the load asks for, by more than the
// tolerance, a share of it; that alone may be chance, as a random process has another number of arrivals in each stage.
// And the requests in flight grew by more than chance: with n independent requests in flight, as many as in the first
// half on average, the difference between two times has the variance 2n, or more by the process's index of dispersion
// (1/burstiness for gamma) if it is burstier than Poisson; three and a half of these standard deviations are asked for,
// because in a queue they are not independent. A stage that is too short to show a growth beyond that passes.
//
// Measured in virtual time (`go test ./simulator -run TestSustained -v` has a part of it): Poisson arrivals at a server
// of 16 slots that completes 29.3 req/s, stages of 10, 30 and 120 s behind a warm-up of 3 s, 100 to 400 stages each.
// With up to 70 % of its capacity to do it was never taken for overloaded, with 95 % in 0.8 to 2 % of the stages; with
// 110 % in 14, 70 and 100 %, with 120 % in 41, 98 and 100 %, with 150 % in 97 % or more. Three deviations from the
// level at the begin of the measured part alone saw a little more, but took up to 3 % of the stages at 70 % for
// overloaded: one such stage costs a search most of its answer. Requests that take a large part of the stage need a
// warm-up as long as they take: without one their number is still growing to its level.
func sustained(o Outcome, load *spatev1.LoadPoint, tolerance float64) (ok bool, reason string) {
	b := o.Backlog
	if b == nil || b.Started <= b.Ended || float64(b.Ended) >= b.Owed*(1-tolerance) {
		return true, ""
	}
	dispersion := 1.0
	if shape := load.GetBurstiness(); load.GetArrival() == "gamma" && shape > 0 {
		dispersion = max(1, 1/shape)
	}
	grown := b.Started - b.Ended
	if float64(grown) <= backlogDoubt*math.Sqrt(2*dispersion*max(1, b.Level)) {
		return true, ""
	}
	return false, fmt.Sprintf("the server did not keep up: %s ended, and the requests in flight grew from %d to %d",
		rateWords(float64(b.Ended)/b.Seconds), b.InFlight, b.InFlight+grown)
}
