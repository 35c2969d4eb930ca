package results

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// goodputOf counts the requests that met the SLO. It returns nil without an SLO.
func goodputOf(slo *spatev1.SLO, c *spatev1.Counters, duration *float64) *Goodput {
	if slo == nil {
		return nil
	}
	g := &Goodput{
		TTFTMs: limit(slo.GetTtft()), TPOTMs: limit(slo.GetTpot()), E2EMs: limit(slo.GetE2E()),
		Requests: c.GetGood(), Share: share(c.GetGood(), c.GetCompleted()+c.GetFailed()),
	}
	if duration != nil && *duration > 0 {
		g.RequestThroughput = new(float64(c.GetGood()) / *duration)
	}
	return g
}

// wholeSLO returns the limits of all requests of a stage: none if the parts of its mixture have their own. Nil: the
// stage has no SLO.
func wholeSLO(stage *spatev1.Stage) *spatev1.SLO {
	own := slices.ContainsFunc(stage.GetWorkload().GetMix().GetParts(),
		func(part *spatev1.Part) bool { return part.GetSlo() != nil })
	switch {
	case !content.HasSLO(stage):
		return nil
	case own:
		return &spatev1.SLO{}
	}
	return stage.GetSlo()
}

// limit converts a duration to milliseconds. It returns nil for nil.
func limit(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(millis(d.AsDuration().Nanoseconds()))
}

// prefixCacheOf compares shared and cached tokens. A share of the input tokens is known only if the tokens of all
// requests are.
func prefixCacheOf(c *spatev1.Counters) (p PrefixCache) {
	input := merge.InputTokens(c)
	if input == nil {
		return p
	}
	p.SharedShare = share(c.GetSharedTokens(), *input)
	if c.GetWithCachedTokens() == c.GetCompleted() {
		p.CachedShare = share(c.GetCachedTokens(), *input)
	}
	return p
}

// endingsOf counts answers by their finish reasons. It returns nil if there are none.
func endingsOf(t *merge.Tally) *Endings {
	c := t.Counters
	e := &Endings{
		Stop: c.GetEndedStop(), Length: c.GetEndedLength(), ToolCalls: c.GetEndedToolCalls(),
		Filtered: c.GetEndedFiltered(), Other: c.GetEndedOther(),
		Aborted: t.ErrorCounts()[measure.ErrorName(spatev1.ErrorClass_ERROR_CLASS_ABORTED, 0)],
	}
	known := e.Stop + e.Length + e.ToolCalls + e.Filtered + e.Other
	if known+e.Aborted == 0 {
		return nil
	}
	e.Unknown = c.GetCompleted() - min(known, c.GetCompleted())
	return e
}

// answerModels returns the models that answers named, most requests first.
func answerModels(t *merge.Tally) []trust.AnswerModel {
	all := []trust.AnswerModel{}
	for _, m := range t.Models {
		const microsPerMilli = 1000
		a := trust.AnswerModel{
			Name: m.GetModel(), Requests: m.GetRequests(),
			MeanE2EMs: float64(m.GetE2EUs()) / float64(m.GetRequests()) / microsPerMilli,
		}
		if m.GetStreamed() > 0 {
			a.MeanTTFTMs = new(float64(m.GetTtftUs()) / float64(m.GetStreamed()) / microsPerMilli)
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b trust.AnswerModel) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// imagesOf returns what images cost in tokens. It returns nil if there are none.
func imagesOf(c *spatev1.Counters) *Images {
	if c.GetImages() == 0 {
		return nil
	}
	return &Images{Count: c.GetImages(), TokensEach: float64(c.GetImageTokens()) / float64(c.GetImages())}
}

// toolsOf counts tool calls. It returns nil if no request defined tools and no answer has a call.
func toolsOf(c *spatev1.Counters) *ToolCalls {
	if c.GetWithTools()+c.GetToolCalls() == 0 {
		return nil
	}
	return &ToolCalls{
		Requests: c.GetWithTools(), WithCalls: c.GetWithToolCalls(), Calls: c.GetToolCalls(),
		ValidCalls: c.GetValidToolCalls(), ValidShare: share(c.GetValidToolCalls(), c.GetToolCalls()),
	}
}

// answersOf counts answers that had to have a form. It returns nil if there are none.
func answersOf(c *spatev1.Counters) *CheckedAnswers {
	if c.GetCheckedAnswers() == 0 {
		return nil
	}
	return &CheckedAnswers{
		Checked: c.GetCheckedAnswers(), Valid: c.GetValidAnswers(),
		ValidShare: share(c.GetValidAnswers(), c.GetCheckedAnswers()),
	}
}

// canariesOf counts the answers of endpoints to canaries. It returns nil if none are asked.
func canariesOf(c *spatev1.Counters, quiet []*spatev1.QuietCount) *Canaries {
	if len(quiet) == 0 {
		return nil
	}
	sum := &spatev1.QuietCount{}
	for _, q := range quiet {
		sum.Asked, sum.Differing = sum.GetAsked()+q.GetAsked(), sum.GetDiffering()+q.GetDiffering()
		sum.Tasks, sum.Right = sum.GetTasks()+q.GetTasks(), sum.GetRight()+q.GetRight()
	}
	all := &Canaries{
		Quiet:  canaryAnswers(sum.GetAsked(), sum.GetDiffering(), sum.GetTasks(), sum.GetRight()),
		Load:   canaryAnswers(c.GetCanaries(), c.GetCanariesDiffering(), c.GetCanaryTasks(), c.GetCanaryTasksRight()),
		Failed: c.GetCanariesFailed(),
	}
	if n := c.GetCanariesDiffering(); n > 0 {
		all.Load.FirstDifference = new(1 + float64(c.GetCanaryWordsAlike())/float64(n))
	}
	return all
}

func canaryAnswers(asked, differing, tasks, right uint64) CanaryAnswers {
	return CanaryAnswers{Asked: asked, Differing: differing, DifferingShare: share(differing, asked),
		Tasks: tasks, Right: right, RightShare: share(right, tasks)}
}

// quietOf returns what endpoints answered to canaries before the load, which all agents know that have a preparation.
func quietOf(agents []*spatev1.AssignedAgent) []*spatev1.QuietCount {
	return lists.Find(agents, func(a *spatev1.AssignedAgent) bool { return a.GetPreparation().GetCanaries() != nil }).
		GetPreparation().GetCanaries()
}

// datasetOf describes the workload's rows. It returns nil if there are none.
func datasetOf(d *spatev1.Dataset) *Dataset {
	if d == nil {
		return nil
	}
	return &Dataset{SHA256: d.GetSha256(), Rows: d.GetRows(), Skipped: d.GetSkipped()}
}

// probeOf describes a stage's place in a sweep, a search or a frontier. It returns nil if the stage is in none.
func probeOf(p *spatev1.Probe) *Probe {
	if p == nil {
		return nil
	}
	return &Probe{Series: p.GetSeries(), Number: p.GetNumber(), Purpose: p.GetPurpose()}
}

// preparationsOf lists what agents found out about the target. Agents that found the same share one entry, at the place
// of the first of them.
func preparationsOf(rec *spatev1.StageRecord) []Preparation {
	out, found := []Preparation{}, []*spatev1.Preparation{}
	for _, a := range rec.GetAgents() {
		p := a.GetPreparation()
		if p == nil {
			continue
		}
		requests := p.GetRequests()
		p = proto.CloneOf(p)
		p.Requests = 0 // agents that found the same may have needed more or fewer
		if i := slices.IndexFunc(found, func(q *spatev1.Preparation) bool { return proto.Equal(p, q) }); i >= 0 {
			out[i].Agents++
			out[i].Requests += requests
			continue
		}
		found = append(found, p)
		out = append(out, Preparation{
			Agents: 1, Lengths: p.GetLengths(), TemplateTokens: p.TemplateTokens, ExactOutput: p.GetExactOutput(),
			ExactOutputBy: unlessZero(p.GetExactOutputBy()), RunningUsage: p.GetRunningUsage(),
			Requests:       requests,
			MaxModelTokens: p.MaxModelTokens, Server: p.GetServer(),
			Notes: append(append([]string{}, p.GetNotes()...), rec.GetStage().GetServerNotes()...),
		})
	}
	return out
}

// sessions returns the results of a stage's sessions. It returns nil if the workload does not play any.
func (s sums) sessions(w *spatev1.Workload) *Sessions {
	if !content.PlaysSessions(w) {
		return nil
	}
	r := &Sessions{
		Completed:    s.Total.Counters.GetCompletedSessions(),
		Broken:       s.Total.Counters.GetBrokenSessions(),
		Task:         s.Total.Summary(spatev1.Metric_METRIC_TASK),
		TaskRequests: s.Total.Summary(spatev1.Metric_METRIC_TASK_REQUESTS),
		TaskDelays:   s.Total.Summary(spatev1.Metric_METRIC_TASK_DELAYS),
		Turns:        []TurnResult{},
	}
	for class, t := range s.Turns {
		if t.Counters.GetCompleted() == 0 {
			continue
		}
		first, last := measure.TurnsOf(class)
		r.Turns = append(r.Turns, TurnResult{
			From: first, To: last, Completed: t.Counters.GetCompleted(),
			TTFT: t.Summary(spatev1.Metric_METRIC_TTFT), E2E: t.Summary(spatev1.Metric_METRIC_E2E),
			InputTokens: merge.InputTokens(t.Counters), PrefixCache: prefixCacheOf(t.Counters),
		})
	}
	return r
}

// vllm summarizes the stage by the definitions of vLLM's benchmark.
func (s sums) vllm() VLLM {
	v := VLLM{
		TTFT: vllmMetric(s.Total.Values[spatev1.Metric_METRIC_VLLM_TTFT]),
		TPOT: vllmMetric(s.Total.Values[spatev1.Metric_METRIC_VLLM_TPOT]),
		ITL:  vllmMetric(chunkGaps(s.Total)),
		E2EL: vllmMetric(s.Total.Values[spatev1.Metric_METRIC_VLLM_E2E]),
	}
	v.PeakOutputTokenThroughput, v.PeakConcurrentRequests = s.chunkPeaks()
	return v
}

// chunkPeaks returns the most chunks in a window, and the most requests that were in flight at any time during a
// window: those in flight at its start and those that started in it. Both are nil if there is no window.
func (s sums) chunkPeaks() (chunks *float64, requests *uint64) {
	if len(s.Windows) == 0 {
		return nil, nil
	}
	chunks, requests = new(float64), new(uint64)
	inFlight := uint64(0)
	for _, number := range slices.Sorted(maps.Keys(s.Windows)) {
		w := s.Windows[number]
		inFlight += w.Started
		*chunks, *requests = max(*chunks, float64(w.Chunks)), max(*requests, inFlight)
		inFlight -= min(inFlight, w.Ended)
	}
	return chunks, requests
}

// chunkGaps returns the gaps between chunks: the gaps between token frames, plus those only between chunks, minus those
// not between chunks. It returns nil if an agent's numbers are inconsistent.
func chunkGaps(t *merge.Tally) *histogram.Histogram {
	gaps := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_ITL))
	for _, m := range []spatev1.Metric{spatev1.Metric_METRIC_ITL, spatev1.Metric_METRIC_VLLM_ITL_ADDED} {
		if values := t.Values[m]; values != nil && gaps.Merge(values) != nil {
			return nil
		}
	}
	if values := t.Values[spatev1.Metric_METRIC_VLLM_ITL_LEFT_OUT]; values != nil && gaps.Subtract(values) != nil {
		return nil // an agent reported more gaps to leave out than it had
	}
	return gaps
}

// vllmMetric summarizes the values of a metric. It returns nil if there are none.
func vllmMetric(h *histogram.Histogram) *VLLMMetric {
	if h == nil || h.Count() == 0 {
		return nil
	}
	at := func(q float64) float64 { return h.Quantile(q) / nanosPerMs }
	return &VLLMMetric{
		Mean: h.Mean() / nanosPerMs, Median: at(0.5), Std: h.Std() / nanosPerMs, P90: at(0.9), P95: at(0.95),
		P99: at(0.99), Count: h.Count(),
	}
}

// reasoningOf summarizes the reasoning of completed requests. It returns nil if no request reported any.
func reasoningOf(t *merge.Tally) *Reasoning {
	d := t.Summary(spatev1.Metric_METRIC_REASONING_TOKENS)
	if d == nil {
		return nil
	}
	return &Reasoning{Tokens: t.Counters.GetReasoningTokens(), Hidden: t.Counters.GetHiddenReasoningTokens(),
		PerRequest: d}
}
