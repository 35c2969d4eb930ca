package aggregate

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Result returns the result of what was merged so far. rec is the stage's record as it is now; its agents are those of NewStage.
func (s *Stage) Result(rec *spatev1.StageRecord) StageResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := s.missing(rec)
	stage := rec.GetStage()
	r := StageResult{
		Index:     stage.GetIndex(),
		Target:    stage.GetTarget().GetName(),
		Workload:  stage.GetWorkload().GetName(),
		Load:      loadOf(stage.GetLoad()),
		Model:     stage.GetTarget().GetModel(),
		API:       stage.GetTarget().GetApi(),
		Seed:      stage.GetSeed(),
		Probe:     probeOf(stage.GetProbe()),
		Enough:    unlessZero(rec.GetEnough()),
		StartTime: timeText(rec.GetStartTime()),
		Complete:  len(missing) == 0,
		Missing:   missing,
		Requests:  s.requests(rec),
		Streams:   streamsOf(s.total.counters),

		InputTokens:         inputTokens(s.total.counters),
		OutputTokens:        s.total.counters.GetOutputTokens(),
		OutputTokensCounted: outputTokensCounted(s.total.counters),

		PeakOutputTokenThroughput: s.peakTokens(),
		PeakConcurrency:           s.peakConcurrency(),
		Steady:                    s.steady(),

		PrefixCache:  prefixCacheOf(s.total.counters),
		Dataset:      datasetOf(stage.GetDataset()),
		Preparations: preparationsOf(rec.GetAgents()),

		Errors:        s.total.errorCounts(),
		ErrorExamples: s.total.errorExamples(),
		Endpoints:     s.endpointResults(stage.GetTarget()),
		Agents:        s.agentResults(rec),
		Regions:       s.regionResults(rec),
	}
	if rec.MeasuredFromNs != nil {
		from := float64(rec.GetMeasuredFromNs()) / nanosPerSecond
		r.MeasuredFromS = &from
	}
	s.addThroughput(&r)
	r.Goodput = goodputOf(stage.GetSlo(), s.total.counters, r.DurationS)
	s.addDistributions(&r, stage.GetWorkload())
	return r
}

// requests counts the stage's requests.
func (s *Stage) requests(rec *spatev1.StageRecord) Requests {
	c := s.total.counters
	r := Requests{
		Started:    c.GetStarted(),
		Completed:  c.GetCompleted(),
		Failed:     c.GetFailed(),
		Cancelled:  c.GetCancelled(),
		NeverSent:  s.neverSent(),
		Unmeasured: c.GetUnmeasuredStarted(),
	}
	if load := rec.GetStage().GetLoad(); load.GetDuration() == nil {
		r.Planned = unlessZero(load.GetRequests())
	}
	return r
}

// neverSent sums up the requests never sent, nil if an agent did not say.
func (s *Stage) neverSent() *uint64 {
	sum := uint64(0)
	for _, a := range s.agents {
		if a.totals == nil {
			return nil
		}
		sum += a.totals.GetNeverSent()
	}
	return &sum
}

// streamsOf picks the counters of connections.
func streamsOf(c *spatev1.Counters) Streams {
	return Streams{
		Connections:     c.GetConnections(),
		TokenFrames:     c.GetTokenFrames(),
		TokensArrived:   c.GetTokensArrived(),
		CoalescedReads:  c.GetCoalescedReads(),
		UnstampedFrames: c.GetUnstampedFrames(),
	}
}

// inputTokens is nil if some completed requests had no usage: the sum of the others would be too small.
func inputTokens(c *spatev1.Counters) *uint64 {
	if c.GetWithoutUsage() > 0 {
		return nil
	}
	tokens := c.GetInputTokens()
	return &tokens
}

// outputTokensCounted says how output tokens were counted.
func outputTokensCounted(c *spatev1.Counters) *string {
	counted := "mixed"
	switch {
	case c.GetCompleted() == 0:
		return nil
	case c.GetWithoutUsage() == 0:
		counted = "usage"
	case c.GetWithoutUsage() == c.GetCompleted():
		counted = "frames"
	}
	return &counted
}

// addThroughput works out the rates over the whole stage.
func (s *Stage) addThroughput(r *StageResult) {
	from, to, ok := s.span()
	if !ok {
		return
	}
	duration := float64(to-from) / nanosPerSecond
	r.DurationS = &duration
	if duration <= 0 {
		return
	}
	rate := func(count float64) *float64 { count /= duration; return &count }
	r.RequestThroughput = rate(float64(r.Requests.Completed))
	r.OutputTokenThroughput = rate(float64(r.OutputTokens))
	if r.InputTokens != nil {
		r.TotalTokenThroughput = rate(float64(*r.InputTokens + r.OutputTokens))
	}
}

// span is the time from the first measured start to the last measured end of any agent.
func (s *Stage) span() (from, to int64, ok bool) {
	from, to = math.MaxInt64, math.MinInt64
	for _, a := range s.agents {
		if a.totals == nil || a.totals.FirstStartNs == nil || a.totals.LastEndNs == nil {
			continue
		}
		from, to, ok = min(from, a.totals.GetFirstStartNs()), max(to, a.totals.GetLastEndNs()), true
	}
	return from, to, ok && from <= to
}

// peakTokens is the largest number of tokens in a window, nil if there is no window.
func (s *Stage) peakTokens() *float64 {
	var peak *float64
	for _, w := range s.windows {
		if tokens := float64(w.tokensArrived); peak == nil || tokens > *peak {
			peak = &tokens
		}
	}
	return peak
}

// peakConcurrency is the largest sum of the agents' peaks in a window, nil if there is no window.
func (s *Stage) peakConcurrency() *PeakConcurrency {
	if len(s.windows) == 0 {
		return nil
	}
	p := &PeakConcurrency{Exact: len(s.agents) == 1}
	for number := range s.windows {
		p.Requests = max(p.Requests, s.inFlight(int(number)))
	}
	return p
}

// steady works out the rates over the whole windows in which every agent with load was steady, nil if there is none.
func (s *Stage) steady() *Steady {
	if first, end, ok := s.steadyWindows(); ok {
		return s.steadyBetween(first, end)
	}
	return nil
}

// steadyWindows are the whole windows from first to before end in which every agent with load was steady, false if there are none.
func (s *Stage) steadyWindows() (first, end int64, ok bool) {
	return s.windowsOf(func(t *spatev1.Totals) (from, to *int64) { return t.SteadyFromNs, t.SteadyToNs })
}

// windowsOf are the whole windows from first to before end that lie in a span of every agent with load, false if there are none or an
// agent's span is not known.
func (s *Stage) windowsOf(span func(*spatev1.Totals) (from, to *int64)) (first, end int64, ok bool) {
	from, to := int64(0), int64(math.MaxInt64)
	for _, a := range s.agents {
		if a.totals == nil {
			return 0, 0, false
		}
		if a.totals.GetCounters().GetStarted() == 0 {
			continue // an agent without a share
		}
		ownFrom, ownTo := span(a.totals)
		if ownFrom == nil || ownTo == nil {
			return 0, 0, false
		}
		from, to, ok = max(from, *ownFrom), min(to, *ownTo), true
	}
	first, end = (from+nanosPerSecond-1)/nanosPerSecond, to/nanosPerSecond
	return first, end, ok && first < end
}

// steadyBetween sums up the windows from first to before end.
func (s *Stage) steadyBetween(first, end int64) *Steady {
	var completed, tokens uint64
	for number, w := range s.windows {
		if int64(number) >= first && int64(number) < end {
			completed += w.completed
			tokens += w.tokensArrived
		}
	}
	duration := float64(end - first)
	return &Steady{
		FromS:                 float64(first),
		ToS:                   float64(end),
		DurationS:             duration,
		RequestThroughput:     float64(completed) / duration,
		OutputTokenThroughput: float64(tokens) / duration,
	}
}

// addDistributions sums up the merged values.
func (s *Stage) addDistributions(r *StageResult, w *spatev1.Workload) {
	for m, field := range map[spatev1.Metric]**Distribution{
		spatev1.Metric_METRIC_TTFT:                  &r.TTFT,
		spatev1.Metric_METRIC_TPOT:                  &r.TPOT,
		spatev1.Metric_METRIC_ITL:                   &r.ITL,
		spatev1.Metric_METRIC_E2E:                   &r.E2E,
		spatev1.Metric_METRIC_TTFT_SCHEDULED:        &r.TTFTScheduled,
		spatev1.Metric_METRIC_E2E_SCHEDULED:         &r.E2EScheduled,
		spatev1.Metric_METRIC_SEND_DELAY:            &r.SendDelay,
		spatev1.Metric_METRIC_CONNECT:               &r.Connect,
		spatev1.Metric_METRIC_FAILURE_TIME:          &r.FailureTime,
		spatev1.Metric_METRIC_RECEIVE_LAG:           &r.ReceiveLag,
		spatev1.Metric_METRIC_FIRST_FRAME:           &r.FirstFrame,
		spatev1.Metric_METRIC_TPOT_FIRST_FRAME:      &r.TPOTFirstFrame,
		spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME: &r.TokensPerFrame,
	} {
		*field = s.total.distribution(m)
	}
	r.ITLFirstFrame = distributionOf(s.frameGaps(), nanosPerMs)
	c := s.total.counters
	r.ISL = SequenceLength{
		Asked:       unlessZero(w.GetRandom().GetIsl()),
		Seen:        s.total.distribution(spatev1.Metric_METRIC_ISL),
		Missed:      c.GetIslMissed(),
		MissedShare: share(c.GetIslMissed(), c.GetCompleted()-c.GetWithoutUsage()),
	}
	r.OSL = SequenceLength{
		Asked:       unlessZero(w.GetRandom().GetOsl()),
		Seen:        s.total.distribution(spatev1.Metric_METRIC_OSL),
		Missed:      c.GetOslMissed(),
		MissedShare: share(c.GetOslMissed(), c.GetCompleted()),
	}
}

// frameGaps merges the gaps between token frames with those between a first frame without text and the first token.
func (s *Stage) frameGaps() *histogram.Histogram {
	gaps := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_ITL))
	for _, m := range []spatev1.Metric{spatev1.Metric_METRIC_ITL, spatev1.Metric_METRIC_FIRST_FRAME_GAP} {
		if values := s.total.values[m]; values != nil {
			mustMerge(gaps, values)
		}
	}
	return gaps
}

// endpointResults breaks the stage down by endpoint.
func (s *Stage) endpointResults(target *spatev1.Target) []EndpointResult {
	results := make([]EndpointResult, 0, len(s.endpoints))
	for i, t := range s.endpoints {
		results = append(results, EndpointResult{URL: redacted(target.GetEndpoints()[i]), Breakdown: t.breakdown()})
	}
	return results
}

// agentResults breaks the stage down by agent.
func (s *Stage) agentResults(rec *spatev1.StageRecord) []AgentResult {
	results := make([]AgentResult, 0, len(rec.GetAgents()))
	for _, assigned := range rec.GetAgents() {
		a := s.agents[keyOf(assigned)]
		if a == nil {
			continue
		}
		r := AgentResult{
			Name:      assigned.GetAgent().GetName(),
			Region:    a.region,
			Weight:    assigned.GetWeight(),
			Failure:   unlessZero(assigned.GetFailure()),
			Breakdown: a.breakdown(),
		}
		if t := a.totals; t != nil {
			startError, uncertainty, neverSent := millis(t.GetStartErrorNs()), millis(t.GetClockUncertaintyNs()), t.GetNeverSent()
			r.StartErrorMs, r.ClockUncertaintyMs, r.NeverSent = &startError, &uncertainty, &neverSent
			if r.Failure == nil {
				r.Failure = unlessZero(t.GetFailure())
			}
		}
		results = append(results, r)
	}
	return results
}

// regionResults breaks the stage down by region.
func (s *Stage) regionResults(rec *spatev1.StageRecord) []RegionResult {
	agents := make(map[string]int)
	for _, a := range rec.GetAgents() {
		agents[a.GetAgent().GetRegion()]++
	}
	results := make([]RegionResult, 0, len(s.regions))
	for _, name := range slices.Sorted(maps.Keys(s.regions)) {
		results = append(results, RegionResult{Name: name, Agents: agents[name], Breakdown: s.regions[name].breakdown()})
	}
	return results
}

// breakdown sums up a part of the stage.
func (t *tally) breakdown() Breakdown {
	c := t.counters
	return Breakdown{
		Requests: PartRequests{
			Started:   c.GetStarted(),
			Completed: c.GetCompleted(),
			Failed:    c.GetFailed(),
			Cancelled: c.GetCancelled(),
		},
		InputTokens:  inputTokens(c),
		OutputTokens: c.GetOutputTokens(),
		TTFT:         t.latency(spatev1.Metric_METRIC_TTFT),
		TPOT:         t.latency(spatev1.Metric_METRIC_TPOT),
		E2E:          t.latency(spatev1.Metric_METRIC_E2E),
		Errors:       t.errorCounts(),
	}
}

// redacted hides a password in a URL.
func redacted(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.User == nil {
		return endpoint
	}
	return u.Redacted()
}

// millis turns nanoseconds into milliseconds.
func millis(ns int64) float64 { return float64(ns) / nanosPerMs }

// seconds turns a duration into seconds, nil if there is none.
func seconds(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.AsDuration().Seconds()
	return &s
}

// timeText formats a time, nil if there is none.
func timeText(t *timestamppb.Timestamp) *string {
	if t == nil {
		return nil
	}
	text := t.AsTime().UTC().Format(time.RFC3339Nano)
	return &text
}

// share is part of whole, nil of none.
func share(part, whole uint64) *float64 {
	if whole == 0 {
		return nil
	}
	s := float64(part) / float64(whole)
	return &s
}

// unlessZero is nil for a zero value, which in the protocol's messages means "not given".
func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
