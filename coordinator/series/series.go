// Package series decides which stages a sweep or a search runs next, from what the stages before measured.
//
// It is pure: no I/O, no clock, no goroutine. It knows nothing of agents, targets and ledgers; it turns a template's
// load into load points one after another, and outcomes into a conclusion. The run's state machine (package lifecycle)
// is its only caller: it asks for the next step, runs it as a stage, and takes the stage's outcome in.
package series

import (
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Purposes of the stages of a series, as in Probe.purpose.
const (
	Synchronous = "synchronous"
	Saturated   = "saturated"
	Rate        = "rate"
	Bracket     = "bracket"
	Bisect      = "bisect"
	Repeat      = "repeat"
	Again       = "again"
)

// Step is the next stage of a series.
type Step struct {
	// Number of the stage in the series, from 0.
	Number uint32
	// Purpose is one of the purposes above.
	Purpose string
	// Value is the rate in requests per second, or the concurrency.
	Value float64
	// Load is the template's load at this value, without the search or sweep. It is the caller's own.
	Load *spatev1.LoadPoint
}

// Outcome is what a stage measured, as far as series ask for it. What is not known is nil.
type Outcome struct {
	// GaveUp is why an abort rule ended the stage. Empty: none did.
	GaveUp string
	// Completed, Failed and Cancelled count the measured requests by their end.
	Completed, Failed, Cancelled uint64
	// Fault is the failed requests' most frequent error, in words. Empty: there is none.
	Fault string
	// Good are the completed requests that kept the plan's SLO.
	Good uint64
	// NeverSent are the measured requests that were owed and not sent.
	NeverSent uint64
	// Latencies are those that a search limits, in the order of its limits. Requests that were cut off count as slower
	// than all.
	Latencies []*time.Duration
	// Throughput is completed requests per second.
	Throughput *float64
	// Backlog is how the number of requests in flight grew. Nil: the stage was too short to tell.
	Backlog *Backlog
	// Verdict is that on the stage's measurement: "VALID", "SUSPECT" or "INVALID". Empty: it was not judged.
	Verdict string
	// Doubts are the reasons for it, in words. Empty: there are none.
	Doubts string
	// Unmeasured is why the measurement itself is invalid, through no fault of the server's. Empty: it is not.
	Unmeasured string
}

// Backlog counts what came and what went in the second half of a stage's measured part, measured or not.
type Backlog struct {
	// Level is the mean number of requests in flight in the first half, InFlight the number at the begin of the second.
	Level    float64
	InFlight uint64
	// Owed is how many requests the load asks for in it. Started and Ended are those that did so.
	Owed           float64
	Started, Ended uint64
	// Seconds is its length.
	Seconds float64
}

// Series is a sweep or a search under way. It is not safe for concurrent use.
type Series interface {
	// Next returns the next stage, false if the series has ended. Asked again before Take it says the same.
	Next() (Step, bool)
	// Take takes in the outcome of the stage that Next returned last, with its index in the run. It returns what a
	// person should know of it.
	Take(stageIndex uint32, o Outcome) string
	// End ends the series before its time.
	End(reason string)
	// Conclusion says in one line what came of the series, and whether that is what was asked for.
	Conclusion() (text string, good bool)
	// Record is what a search found, without the names of its place in the run. Nil: the series is no search.
	Record() *spatev1.SearchRecord
}

// New begins the series of a template's load, whose defaults have been filled in. It returns nil if the load is no
// template.
func New(template *spatev1.LoadPoint) Series {
	switch {
	case template.GetSearch() != nil:
		return newSearch(template)
	case template.GetSweep() != nil:
		return newSweep(template)
	}
	return nil
}

// closedAt is a template's load at a concurrency.
func closedAt(template *spatev1.LoadPoint, concurrency uint32) *spatev1.LoadPoint {
	l := plain(template)
	l.Concurrency, l.Arrival, l.Burstiness, l.Unconditioned, l.Split = concurrency, "", 0, false, ""
	return l
}

// openAt is a template's load at a rate.
func openAt(template *spatev1.LoadPoint, rate float64) *spatev1.LoadPoint {
	l := plain(template)
	l.Rate = rate
	return l
}

// plain copies a template's load as one that agents can be given.
func plain(template *spatev1.LoadPoint) *spatev1.LoadPoint {
	l := proto.CloneOf(template)
	l.Search, l.Sweep = nil, nil
	return l
}

// digits is to how many significant digits rates are rounded: what a person reads and types again.
const digits = 4

// rounded rounds to significant digits.
func rounded(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64)
	if err != nil || r <= 0 || math.IsInf(r, 0) {
		return v
	}
	return r
}

// rateWords is a rate for people.
func rateWords(rate float64) string { return number(rounded(rate, digits)) + " req/s" }

// number is a number as people write it.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// percent is a share for people.
func percent(share float64) string { return number(rounded(100*share, digits)) + " %" }
