package aggregate

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// latencyFields maps each metric to its field of Latencies: the index of the field + 1, or 0 if there is none. The JSON
// name of a field is the name of its metric.
var latencyFields = latencyFieldsOf(reflect.TypeFor[Latencies]())

func latencyFieldsOf(t reflect.Type) (fields [measure.Count]int) {
	byName := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		byName[t.Field(i).Tag.Get("json")] = i + 1
	}
	for _, m := range measure.Metrics() {
		fields[m.ID] = byName[m.Name]
	}
	return fields
}

// latencies summarizes the merged times.
func (t *tally) latencies() (l Latencies) {
	value := reflect.ValueOf(&l).Elem()
	for m, field := range latencyFields {
		if d := t.distribution(spatev1.Metric(m)); field > 0 && d != nil {
			value.Field(field - 1).Set(reflect.ValueOf(d))
		}
	}
	return l
}

// agentResults returns the results by agent, without observers.
func (s *Stage) agentResults(rec *spatev1.StageRecord) []AgentResult {
	results := make([]AgentResult, 0, len(rec.GetAgents()))
	for _, assigned := range rec.GetAgents() {
		if !assigned.GetObserver() {
			results = append(results, s.agentResult(assigned, s.agents[keyOf(assigned)]))
		}
	}
	return results
}

// agentResult returns what one agent measured.
func (s *Stage) agentResult(assigned *spatev1.AssignedAgent, a *agentTally) AgentResult {
	r := AgentResult{
		Name:      assigned.GetAgent().GetName(),
		Region:    a.regionName,
		Weight:    assigned.GetWeight(),
		Failure:   unlessZero(cmp.Or(assigned.GetFailure(), a.totals.GetFailure())),
		Loss:      s.lossOf(a),
		Breakdown: a.whole(newTally(keyMetrics)).breakdown(),
	}
	if a.joined > 0 {
		joined := float64(a.joined) / nanosPerSecond
		r.JoinedS = &joined
	}
	if t := a.totals; t != nil {
		uncertainty, neverSent := millis(t.GetClockUncertaintyNs()), t.GetNeverSent()
		r.ClockUncertaintyMs, r.NeverSent = &uncertainty, &neverSent
		if a.started() {
			startError := millis(t.GetStartErrorNs())
			r.StartErrorMs = &startError
		}
	}
	return r
}

// started reports whether an agent that has sent its totals started its load at the stage's start. An agent that joined
// later did not, and neither did an agent that was stopped before it sent a request.
func (a *agentTally) started() bool {
	c := a.totals.GetCounters()
	return a.joined == 0 && c.GetStarted()+c.GetUnmeasuredStarted() > 0
}

// startSpread compares the first agent's start with the last agent's. It returns nil if fewer than two starts are
// known. If starts are equal, the first agent in the order of the split counts.
func (s *Stage) startSpread(rec *spatev1.StageRecord) *StartSpread {
	var first, last *spatev1.Totals
	known, r := 0, &StartSpread{}
	for _, assigned := range rec.GetAgents() {
		a := s.agents[keyOf(assigned)]
		if a == nil || a.totals == nil || !a.started() {
			continue
		}
		known++
		if first == nil || a.totals.GetStartErrorNs() < first.GetStartErrorNs() {
			first, r.Earliest = a.totals, assigned.GetAgent().GetName()
		}
		if last == nil || a.totals.GetStartErrorNs() > last.GetStartErrorNs() {
			last, r.Latest = a.totals, assigned.GetAgent().GetName()
		}
	}
	if known < 2 {
		return nil
	}
	r.SpreadMs = millis(last.GetStartErrorNs() - first.GetStartErrorNs())
	r.UncertaintyMs = millis(first.GetClockUncertaintyNs() + last.GetClockUncertaintyNs())
	return r
}

// droppedRecords returns the number of request rows that agents dropped. Observers count, because their rows are in the
// same files.
func (s *Stage) droppedRecords() (rows uint64) {
	for _, agents := range []map[agentKey]*agentTally{s.agents, s.observers} {
		for _, a := range agents {
			rows += a.rows
		}
	}
	return rows
}

// regionResults returns the results by region. duration is that of the stage, in seconds.
func (s *Stage) regionResults(rec *spatev1.StageRecord, duration *float64) []RegionResult {
	names := make(map[string]map[string]bool) // of agents by region
	for _, a := range rec.GetAgents() {
		region := a.GetAgent().GetRegion()
		if names[region] == nil {
			names[region] = make(map[string]bool)
		}
		if !a.GetObserver() {
			names[region][a.GetAgent().GetName()] = true
		}
	}
	results := make([]RegionResult, 0, len(s.regions))
	for _, name := range slices.Sorted(maps.Keys(s.regions)) {
		results = append(results, RegionResult{
			Name: name, Agents: len(names[name]),
			Contribution: s.regions[name].contribution(rec.GetStage().GetTarget(), duration),
		})
	}
	return results
}

// observerResults returns what observers measured, by region.
func (s *Stage) observerResults(rec *spatev1.StageRecord) []ObserverResult {
	results := make([]ObserverResult, 0, len(s.watched))
	for _, name := range slices.Sorted(maps.Keys(s.watched)) {
		r := ObserverResult{Region: name, Agents: []string{}, Load: observersLoad(rec.GetStage().GetObservers()),
			Missing: []string{}}
		var of []*agentTally
		for i, assigned := range rec.GetAgents() {
			a := s.observers[keyOf(assigned)]
			if a == nil || a.regionName != name {
				continue
			}
			of = append(of, a)
			r.Agents = append(r.Agents, assigned.GetAgent().GetName())
			for _, reason := range s.agentMissing(rec, assigned) {
				r.Missing = append(r.Missing, "observer "+processName(rec, i)+" "+reason)
			}
		}
		if from, to, ok := spanOf(slices.Values(of), (*spatev1.Totals).GetLastEndNs); ok {
			duration := float64(to-from) / nanosPerSecond
			r.DurationS = &duration
		}
		r.Contribution = s.watched[name].contribution(rec.GetStage().GetTarget(), r.DurationS)
		results = append(results, r)
	}
	return results
}

// observersLoad returns the light load of an observer in words.
func observersLoad(o *spatev1.Observers) string {
	if o.GetRate() > 0 {
		return plans.LoadWords(&spatev1.LoadPoint{Rate: o.GetRate(), Arrival: "constant"})
	}
	return plans.LoadWords(&spatev1.LoadPoint{Concurrency: max(o.GetConcurrency(), 1)})
}

// contribution summarizes what a region measured. duration is the time for its rates, in seconds.
func (r *regionTally) contribution(target *spatev1.Target, duration *float64) Contribution {
	c := Contribution{
		Requests:     partRequests(r.counters),
		InputTokens:  inputTokens(r.counters),
		OutputTokens: r.counters.GetOutputTokens(),
		Latencies:    r.latencies(),
		Errors:       r.errorCounts(),
		Paths:        make([]PathResult, 0, len(r.paths)),
	}
	c.RequestThroughput, c.OutputTokenThroughput, c.TotalTokenThroughput = throughputs(r.counters, duration)
	for i, t := range r.paths {
		c.Paths = append(c.Paths, PathResult{
			URL:     redacted(target.GetEndpoints()[i]),
			Connect: t.distribution(spatev1.Metric_METRIC_CONNECT),
			RTT:     t.distribution(spatev1.Metric_METRIC_RTT),
		})
	}
	return c
}

// breakdown summarizes a part of the stage.
func (t *tally) breakdown() Breakdown {
	return Breakdown{
		Requests:     partRequests(t.counters),
		InputTokens:  inputTokens(t.counters),
		OutputTokens: t.counters.GetOutputTokens(),
		TTFT:         t.latency(spatev1.Metric_METRIC_TTFT),
		TPOT:         t.latency(spatev1.Metric_METRIC_TPOT),
		E2E:          t.latency(spatev1.Metric_METRIC_E2E),
		Errors:       t.errorCounts(),
	}
}

// partRequests returns the counters of requests.
func partRequests(c *spatev1.Counters) PartRequests {
	return PartRequests{Started: c.GetStarted(), Completed: c.GetCompleted(), Failed: c.GetFailed(),
		Cancelled: c.GetCancelled()}
}
