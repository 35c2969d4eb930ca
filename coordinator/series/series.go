// Package series decides which stage a sweep, a search, a frontier or a choice runs next, from what the previous stages
// measured.
//
// It is pure: no I/O, no clock, no goroutine. It knows nothing about agents, targets and ledgers. It turns a template's
// load into load points one after another, and their outcomes into a conclusion. The run's state machine (package
// lifecycle) is its only caller: it asks for the next step, runs the step as a stage, and passes the stage's outcome to
// Take.
package series

import (
	"cmp"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Purposes of the stages of a series, as in Probe.purpose.
const (
	Synchronous = "synchronous"
	Saturated   = "saturated"
	Rate        = "rate"
	Bracket     = "bracket"
	Bisect      = "bisect"
	Confirm     = "confirm"
	Repeat      = "repeat"
	Again       = "again"
	Round       = "round"
)

// Step is the next stage of a series.
type Step struct {
	// Number of the stage in the series, of a choice that of the round, from 0.
	Number uint32
	// Purpose is one of the purposes above.
	Purpose string
	// Value is the rate in requests per second, or the concurrency.
	Value float64
	// Load is the template's load at this value, without the template. It is a copy that the caller may change.
	Load *spatev1.LoadPoint
	// Entrant is the number of the target, as New was given them.
	Entrant int
}

// Outcome is what a stage measured, as far as series need it. Unknown values are nil.
type Outcome struct {
	// Target is the name of the stage's target.
	Target string
	// Middle of the stage in seconds since 1970. 0: not known.
	Middle float64
	// Aborted is why an abort rule ended the stage. Empty: no rule did.
	Aborted string
	// Completed, Failed and Cancelled count the measured requests by how they ended.
	Completed, Failed, Cancelled uint64
	// Fault is the most frequent error of the failed requests, in words. Empty: there is none.
	Fault string
	// Good counts the completed requests that kept the plan's SLO.
	Good uint64
	// NeverSent counts the measured requests that were due and never sent, without those that waited for a request of
	// their session that failed.
	NeverSent uint64
	// Latencies are the values that Asks names, in its order. Cancelled requests count as slower than all others.
	Latencies []*time.Duration
	// Fastest are the same latencies at FastestPercentile: what all but the fastest requests exceeded.
	Fastest []*time.Duration
	// Parts are the same of each part of the mixture, if Asks has objectives for each: what Judge looks at.
	Parts []Outcome
	// Name of the part. Empty: the outcome is of the whole stage.
	Name string
	// Throughput is completed requests per second.
	Throughput *float64
	// OutputThroughput is output tokens per second of the same time.
	OutputThroughput *float64
	// Short reports whether a closed loop's stage has no second in which all of its slots were busy, so that its
	// Throughput is that of its ramp-up and drain.
	Short bool
	// Backlog is how the number of requests in flight grew. Nil: the stage was too short to tell.
	Backlog *Backlog
	// Verdict is the verdict on the stage's measurement: "VALID", "SUSPECT" or "INVALID". Empty: there is none.
	Verdict string
	// Doubts are the reasons for the verdict, in words. Empty: there are none.
	Doubts string
	// Unmeasured is why the measurement itself is invalid, through no fault of the server. Empty: it is not.
	Unmeasured string
}

// last returns the latency that is asked for last, in seconds. 0: it is not known.
func (o Outcome) last() float64 {
	all := append([]*time.Duration{nil}, o.Latencies...)
	return cmp.Or(all[len(all)-1], new(time.Duration)).Seconds()
}

// goodput returns the throughput of requests that met the SLO. 0: it is not known.
func (o Outcome) goodput() float64 {
	return *cmp.Or(o.Throughput, new(0.)) * float64(o.Good) / float64(max(1, o.Completed))
}

// Backlog counts all requests, measured or not, that started and ended in the second half of a stage's measured part.
type Backlog struct {
	// Level is the mean number of requests in flight in the first half, InFlight the number at the start of the second.
	Level    float64
	InFlight uint64
	// Due is how many requests the load asks for in the second half. Started and Ended are how many started and ended
	// in it.
	Due            float64
	Started, Ended uint64
	// Seconds is the length of the second half.
	Seconds float64
}

// Series is a sweep, a search, a frontier or a choice in progress. It is not safe for concurrent use.
type Series interface {
	// Next returns the next stage, false if the series has ended. Until Take is called it returns the same.
	Next() (Step, bool)
	// Take records the outcome of the stage that Next returned last, with the stage's index in the run. It returns what
	// a person should know about the stage. Empty: nothing.
	Take(stageIndex uint32, o Outcome) string
	// End ends the series early.
	End(reason string)
	// Drop says that a target serves no more stages: all but a choice end with their only one.
	Drop(target, reason string)
	// Record returns what was found so far. The caller fills in the target, the workload and the number of the series.
	Record() *spatev1.SeriesRecord
}

// common is what all series have: the load of the plan, and why they ended early.
type common struct {
	template *spatev1.LoadPoint
	ended    string // empty: it did not end early
}

// End ends the series early. The first reason is kept.
func (s *common) End(reason string) { s.ended = cmp.Or(s.ended, reason) }

// Drop ends the series early.
func (s *common) Drop(_, reason string) { s.End(reason) }

// New starts the series of a template's load, whose defaults must be filled in. It returns nil if the load is not a
// template. targets are the templates of the targets that a choice is between.
func New(template *spatev1.LoadPoint, targets ...*spatev1.Stage) Series {
	switch {
	case template.GetChoose() != nil:
		return newRace(template, targets)
	case template.GetSearch() != nil:
		return newSearch(template)
	case template.GetSweep() != nil:
		return newSweep(template)
	case template.GetFrontier() != nil:
		return newFrontier(template)
	}
	return nil
}

// Asks returns the objectives whose values the outcomes of a template's stages must contain. It returns nil if there
// are none.
func Asks(template *spatev1.LoadPoint) *spatev1.Objectives {
	f, c, asks := template.GetFrontier(), template.GetChoose(), &spatev1.Objectives{}
	last := &spatev1.Limit{Metric: f.GetMetric(), Percentile: f.GetPercentile()}
	switch {
	case f.GetKeep() != nil:
		asks = proto.CloneOf(f.GetKeep())
		asks.EachPart = true
	case c != nil:
		if c.GetWithin() != nil {
			asks = proto.CloneOf(c.GetWithin())
		}
		last = &spatev1.Limit{Metric: c.GetBest(), Percentile: c.GetPercentile()}
	case f == nil:
		return template.GetSearch().GetKeep()
	}
	if Metric(last.GetMetric()) != spatev1.Metric_METRIC_UNSPECIFIED {
		asks.Latencies = append(asks.Latencies, last)
	}
	return asks
}

// closedAt returns a template's load at a concurrency.
func closedAt(template *spatev1.LoadPoint, concurrency uint32) *spatev1.LoadPoint {
	l := plain(template)
	l.Concurrency, l.Arrival, l.Burstiness, l.Split = concurrency, "", 0, ""
	return l
}

// openAt returns a template's load at a rate.
func openAt(template *spatev1.LoadPoint, rate float64) *spatev1.LoadPoint {
	l := plain(template)
	l.Rate = rate
	return l
}

// plain returns a copy of a template's load without the template's own field, which agents can run.
func plain(template *spatev1.LoadPoint) *spatev1.LoadPoint {
	l := proto.CloneOf(template)
	l.Search, l.Sweep, l.Frontier, l.Choose = nil, nil, nil, nil
	return l
}

// digits is the number of significant digits to which rates are rounded, so that a person can read and type them.
const digits = 4

// rateWords formats a rate for people.
func rateWords(rate float64) string {
	return loadpoint.Number(loadpoint.Rounded(rate, digits)) + " req/s"
}

// percent formats a share for people.
func percent(share float64) string {
	return loadpoint.Number(loadpoint.Rounded(100*share, digits)) + " %"
}

// The choice of the search's loads. Bisection by the geometric mean halves the logarithm of broke/kept: n probes narrow
// the ratio f to f^(1/2^n).

// up returns the next load of the way up, within the bounds.
func (s *search) up(kept float64) float64 {
	v := s.round(kept * s.factor)
	if s.integer {
		v = max(v, kept+1)
	}
	if v <= kept || v*(1+s.precision) >= s.to {
		return s.to // a step shorter than the precision says nothing
	}
	return v
}

// split returns a load between kept and broke. A probe of an open loop that broke often shows where the knee is: the
// throughput of a saturated server is its capacity. That estimate is tried first.
func (s *search) split(kept, broke float64) float64 {
	if v := s.estimate(kept, broke); v > kept && v < broke {
		return v
	}
	if v := s.round(math.Sqrt(kept * broke)); v > kept && v < broke {
		return v
	}
	if s.integer {
		return kept + 1 // below broke: else the bracket would be narrow
	}
	return math.Sqrt(kept * broke)
}

// estimate returns a load on the side of the estimated knee that has not been probed. 0: there is no estimate, or
// nothing to learn from it.
func (s *search) estimate(kept, broke float64) float64 {
	if s.integer {
		return 0 // a closed loop completes what it asks for
	}
	throughput := s.at(broke)[0].outcome.Throughput
	if throughput == nil || *throughput >= broke/(1+s.precision) {
		return 0 // not saturated
	}
	below := s.round(*throughput * (1 - s.precision/2))
	margin := 1 + s.precision/4
	switch {
	case below > kept*margin && below < broke/margin:
		return below
	case below <= kept*margin && *throughput < kept*(1+2*s.precision):
		return s.round(kept * (1 + s.precision) * (1 - 2*s.rounding()))
	}
	return 0
}

// rounding returns the largest relative error of a rounded rate.
func (s *search) rounding() float64 { return 0.5 * math.Pow10(1-s.digits) }
