package results

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
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

// latenciesOf summarizes the merged times.
func latenciesOf(t *merge.Tally) (l Latencies) {
	value := reflect.ValueOf(&l).Elem()
	for m, field := range latencyFields {
		if d := t.Summary(spatev1.Metric(m)); field > 0 && d != nil {
			value.Field(field - 1).Set(reflect.ValueOf(d))
		}
	}
	return l
}

// agentResults returns the results by agent.
func (s sums) agentResults(rec *spatev1.StageRecord) []AgentResult {
	return append([]AgentResult{}, lists.Each(rec.GetAgents(), func(of *spatev1.AssignedAgent) AgentResult {
		return s.agentResult(rec.GetStage().GetLoad(), of, s.Agent(of))
	})...)
}

// agentResult returns what one agent measured.
func (s sums) agentResult(load *spatev1.LoadPoint, assigned *spatev1.AssignedAgent, a *merge.Agent) AgentResult {
	r := AgentResult{
		Name:      assigned.GetAgent().GetName(),
		Region:    a.RegionName,
		Weight:    assigned.GetWeight(),
		Failure:   unlessZero(cmp.Or(assigned.GetFailure(), a.Totals.GetFailure())),
		Loss:      s.lossOf(load, a),
		Breakdown: breakdown(a.Whole()),
	}
	if a.Joined > 0 {
		r.JoinedS = new(float64(a.Joined) / nanosPerSecond)
	}
	if a.Left != nil {
		r.LeftS = new(float64(*a.Left) / nanosPerSecond)
	}
	if t := a.Totals; t != nil {
		r.ClockUncertaintyMs, r.NeverSent = new(millis(t.GetClockUncertaintyNs())), new(t.GetNeverSent())
		if started(a) {
			r.StartErrorMs = new(millis(t.GetStartErrorNs()))
		}
	}
	return r
}

// started reports whether an agent that has sent its totals started its load at the stage's start. An agent that joined
// later did not, and neither did an agent that was stopped before it sent a request.
func started(a *merge.Agent) bool {
	c := a.Totals.GetCounters()
	return a.Joined == 0 && c.GetStarted()+c.GetUnmeasuredStarted() > 0
}

// startSpread compares the first agent's start with the last agent's. It returns nil if fewer than two starts are
// known. If starts are equal, the first agent in the order of the split counts.
func (s sums) startSpread(rec *spatev1.StageRecord) *StartSpread {
	var first, last *spatev1.Totals
	known, r := 0, &StartSpread{}
	for _, assigned := range rec.GetAgents() {
		a := s.Agent(assigned)
		if a.Totals == nil || !started(a) {
			continue
		}
		known++
		if first == nil || a.Totals.GetStartErrorNs() < first.GetStartErrorNs() {
			first, r.Earliest = a.Totals, assigned.GetAgent().GetName()
		}
		if last == nil || a.Totals.GetStartErrorNs() > last.GetStartErrorNs() {
			last, r.Latest = a.Totals, assigned.GetAgent().GetName()
		}
	}
	if known < 2 {
		return nil
	}
	r.SpreadMs = millis(last.GetStartErrorNs() - first.GetStartErrorNs())
	r.UncertaintyMs = millis(first.GetClockUncertaintyNs() + last.GetClockUncertaintyNs())
	return r
}

// droppedRecords returns the number of request rows that agents dropped.
func (s sums) droppedRecords() uint64 {
	return lists.Sum(slices.Collect(maps.Values(s.Agents)), func(a *merge.Agent) uint64 { return a.DroppedRows })
}

// regionResults returns the results by region. duration is that of the stage, in seconds.
func (s sums) regionResults(rec *spatev1.StageRecord, duration *float64) []RegionResult {
	names := make(map[string]map[string]bool) // of agents by region
	for _, a := range rec.GetAgents() {
		region := a.GetAgent().GetRegion()
		if names[region] == nil {
			names[region] = make(map[string]bool)
		}
		names[region][a.GetAgent().GetName()] = true
	}
	results := make([]RegionResult, 0, len(s.Regions))
	for _, name := range slices.Sorted(maps.Keys(s.Regions)) {
		results = append(results, RegionResult{
			Name: name, Agents: len(names[name]),
			Contribution: contribution(s.Regions[name], rec.GetStage().GetTarget(), duration),
		})
	}
	return results
}

// partResults returns the results by part of the mixture. duration is that of the stage, in seconds.
func (s sums) partResults(stage *spatev1.Stage, duration *float64) []PartResult {
	results := []PartResult{}
	sources, slos := content.Sources(stage), content.SLOs(stage)
	for i, t := range s.Parts {
		r := PartResult{
			Name: sources[i].Workload.GetName(), Weight: stage.GetWorkload().GetMix().GetParts()[i].GetWeight(),
			Share: share(t.Counters.GetStarted(), s.Total.Counters.GetStarted()), Requests: outcomes(t.Counters),
			Goodput:     goodputOf(slos[i], t.Counters, duration),
			InputTokens: merge.InputTokens(t.Counters), OutputTokens: merge.OutputTokens(t.Counters),
			Latencies: latenciesOf(t), ISL: t.Summary(spatev1.Metric_METRIC_ISL),
			OSL: t.Summary(spatev1.Metric_METRIC_OSL), Errors: t.ErrorCounts(), Dataset: datasetOf(sources[i].Rows),
			Endings: endingsOf(t), AnswerModels: answerModels(t),
			Images: imagesOf(t.Counters), Tools: toolsOf(t.Counters), Answers: answersOf(t.Counters),
		}
		r.RequestThroughput, r.OutputTokenThroughput, r.TotalTokenThroughput = merge.Throughputs(t.Counters, duration)
		results = append(results, r)
	}
	return results
}

// contribution summarizes what a region measured. duration is the time for its rates, in seconds.
func contribution(r *merge.Region, target *spatev1.Target, duration *float64) Contribution {
	c := Contribution{
		Requests:     outcomes(r.Counters),
		InputTokens:  merge.InputTokens(r.Counters),
		OutputTokens: merge.OutputTokens(r.Counters),
		Latencies:    latenciesOf(&r.Tally),
		Errors:       r.ErrorCounts(),
		Paths:        make([]PathResult, 0, len(r.Paths)),
	}
	c.RequestThroughput, c.OutputTokenThroughput, c.TotalTokenThroughput = merge.Throughputs(r.Counters, duration)
	for i, t := range r.Paths {
		c.Paths = append(c.Paths, PathResult{
			URL:     naming.Redacted(target.GetEndpoints()[i]),
			Connect: t.Summary(spatev1.Metric_METRIC_CONNECT),
			RTT:     t.Summary(spatev1.Metric_METRIC_RTT),
		})
	}
	return c
}

// breakdown summarizes a part of the stage.
func breakdown(t *merge.Tally) Breakdown {
	return Breakdown{
		Requests:     outcomes(t.Counters),
		InputTokens:  merge.InputTokens(t.Counters),
		OutputTokens: merge.OutputTokens(t.Counters),
		TTFT:         t.Summary(spatev1.Metric_METRIC_TTFT).Short(),
		TPOT:         t.Summary(spatev1.Metric_METRIC_TPOT).Short(),
		E2E:          t.Summary(spatev1.Metric_METRIC_E2E).Short(),
		Errors:       t.ErrorCounts(),
	}
}

func outcomes(c *spatev1.Counters) (o Outcomes) {
	fill(&o, c)
	return o
}
