package series

import (
	"fmt"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
)

// Metric returns the metric that a plan's Limit or Precision names, unspecified if there is no such name.
func Metric(name string) spatev1.Metric {
	return spatev1.Metric(spatev1.Metric_value["METRIC_"+strings.ToUpper(name)])
}

// Judge reports whether the measured values of an outcome keep the objectives, and if not, which objective broke first,
// with its numbers. An unknown value breaks its limit: a stage in which no request completed has broken every limit.
func Judge(keep *spatev1.Objectives, o Outcome) (kept bool, reason string) {
	if o.Aborted != "" {
		return false, o.Aborted
	}
	if o.Completed == 0 {
		return false, fmt.Sprintf("no request completed, %d failed, %d were cancelled", o.Failed, o.Cancelled)
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
	for _, part := range o.Parts {
		if kept, reason := Judge(keep, part); !kept {
			return false, fmt.Sprintf("part %s: %s", part.Name, reason)
		}
	}
	return true, ""
}

// overLimit returns how a latency breaks its limit, empty if it does not.
func overLimit(limit *spatev1.Limit, value *time.Duration, o Outcome) string {
	name, most := loadpoint.LatencyWords(limit.GetMetric(), limit.GetPercentile()), limit.GetAtMost().AsDuration()
	switch {
	case value != nil && *value <= most:
		return ""
	case value != nil:
		return fmt.Sprintf("%s %s > %s", name, loadpoint.Milliseconds(*value), loadpoint.Milliseconds(most))
	case o.Cancelled > 0:
		return fmt.Sprintf("%s is not known: %d of %d requests were cancelled at the end of the drain",
			name, o.Cancelled, o.Completed+o.Failed+o.Cancelled)
	}
	return name + " is not known: no request has one"
}

// unmeasured returns why an outcome says nothing about the server, empty if it does. Requests that were never sent are
// the agents' fault, unless the load holds requests back. If their share exceeds the tolerance, the load was not the
// requested one.
func unmeasured(o Outcome, load *spatev1.LoadPoint, tolerance float64) string {
	if o.Unmeasured != "" {
		return o.Unmeasured
	}
	if due, many := unsent(o, tolerance); many && load.GetMaxInFlight() == 0 {
		return fmt.Sprintf("%d of %d requests were never sent: the agents could not start them in time",
			o.NeverSent, due)
	}
	return ""
}

// unsent returns how many requests were due, and whether more of them than a share were never sent.
func unsent(o Outcome, tolerance float64) (due uint64, many bool) {
	due = o.Completed + o.Failed + o.Cancelled + o.NeverSent
	return due, float64(o.NeverSent) > tolerance*float64(due)
}

// sustained reports whether an open loop's server kept up with the rate, and if not, how it fell behind. Latency limits
// alone do not show this: a queue that keeps growing takes time to show in a percentile, and may never show in TPOT.
//
// The server did not keep up if two conditions hold in the second half of the measured part. (In the first half the
// number of requests in flight may still be approaching its level.) First, fewer requests ended than the load asks for,
// by more than the tolerance, which is a share of the load. This alone may be chance, because a random process has a
// different number of arrivals in each stage. Second, the requests in flight grew by more than chance explains. With n
// independent requests in flight, the average of the first half, the difference between two times has the variance 2n.
// For processes burstier than Poisson, the variance is multiplied by the index of dispersion (see schedule.GapShape).
// The growth must exceed three and a half standard deviations, because requests in a queue are not independent. A stage
// that is too short to show such growth passes.
//
// Measured in virtual time (`go test ./simulator/fits -run TestSustained -v` repeats a part of it): Poisson arrivals at
// a server with 16 slots that completes 29.3 req/s, stages of 10, 30 and 120 s after a warm-up of 3 s, 100 to 400
// stages each. At up to 70 % of its capacity the server was never judged overloaded; at 95 % in 0.8 to 2 % of the
// stages; at 110 % in 14, 70 and 100 %; at 120 % in 41, 98 and 100 %; at 150 % in 97 % or more. Three deviations from
// the level at the start of the measured part found slightly more overload, but judged up to 3 % of the stages at 70 %
// overloaded, and one such stage ruins a search. If requests take a large part of the stage, the warm-up must be as
// long as the requests. Otherwise the number in flight is still growing to its level.
//
// A load that limits its requests in flight holds back what a slow server cannot take. The server did not keep up with
// it if more than the tolerance was never sent.
func sustained(o Outcome, load *spatev1.LoadPoint, tolerance float64) (ok bool, reason string) {
	if due, many := unsent(o, tolerance); many && load.GetMaxInFlight() > 0 {
		return false, fmt.Sprintf("the server did not keep up: %d of %d requests were held back until the end, and "+
			"never sent", o.NeverSent, due)
	}
	b := o.Backlog
	if b == nil || b.Started <= b.Ended || float64(b.Ended) >= b.Due*(1-tolerance) {
		return true, ""
	}
	grown := b.Started - b.Ended
	if !chance.Grew(grown, b.Level, schedule.GapShape(load)) {
		return true, ""
	}
	return false, fmt.Sprintf("the server did not keep up: %s ended, and the requests in flight grew from %d to %d",
		rateWords(float64(b.Ended)/b.Seconds), b.InFlight, b.InFlight+grown)
}
