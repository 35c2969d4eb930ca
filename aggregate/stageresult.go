package aggregate

import (
	"iter"
	"maps"
	"math"
	"net/url"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Result returns the result of what was merged so far. rec is the stage's record as it is now.
func (s *Stage) Result(rec *spatev1.StageRecord) StageResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(rec)
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
		Reasoning: s.total.reasoning(),
		VLLM:      s.vllm(),

		InputTokens:         inputTokens(s.total.counters),
		OutputTokens:        s.total.counters.GetOutputTokens(),
		OutputTokensCounted: outputTokensCounted(s.total.counters),

		Arrivals: s.arrivals(),

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

		Latencies:      s.total.latencies(),
		StartSpread:    s.startSpread(rec),
		Servers:        s.serverResults(),
		ServerAccount:  s.serverAccount(),
		DroppedRecords: s.droppedRecords(),
	}
	if rec.MeasuredFromNs != nil {
		from := float64(rec.GetMeasuredFromNs()) / nanosPerSecond
		r.MeasuredFromS = &from
	}
	if from, to, ok := s.span(); ok {
		duration := float64(to-from) / nanosPerSecond
		r.DurationS = &duration
	}
	r.RequestThroughput, r.OutputTokenThroughput, r.TotalTokenThroughput = throughputs(s.total.counters, r.DurationS)
	r.Goodput = goodputOf(stage.GetSlo(), s.total.counters, r.DurationS)
	r.Regions, r.Observers = s.regionResults(rec, r.DurationS), s.observerResults(rec)
	s.addLengths(&r, stage.GetWorkload())
	r.Trust = s.trustOf(rec, &r)
	return r
}

// serverResults are what servers told while the stage was measured: between the first start and the last end, or in all
// of it where these are not known.
func (s *Stage) serverResults() []ServerResult {
	first, last := uint32(0), uint32(MaxWindow)
	if from, to, ok := s.span(); ok {
		first, last = uint32(max(from, 0)/nanosPerSecond), uint32(max(to, 0)/nanosPerSecond)
	}
	return s.servers.results(s.target, first, last)
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

// neverSent sums up the requests never sent, nil if an agent did not say. What one whose part was taken over did not
// send others did, and nobody knows of how much that is true.
func (s *Stage) neverSent() *uint64 {
	sum := uint64(0)
	for _, a := range s.agents {
		if a.totals == nil || a.takenOver() {
			return nil
		}
		sum += a.totals.GetNeverSent()
	}
	return &sum
}

// streamsOf picks the counters of connections.
func streamsOf(c *spatev1.Counters) Streams {
	s := Streams{
		Connections:     c.GetConnections(),
		Frames:          c.GetFrames(),
		TokenFrames:     c.GetTokenFrames(),
		TextBytes:       c.GetTextBytes(),
		CoalescedReads:  c.GetCoalescedReads(),
		UnstampedFrames: c.GetUnstampedFrames(),
		WholeAnswers:    c.GetWholeAnswers(),
		InOneFrame:      c.GetInOneFrame(),
		InOneRead:       c.GetInOneRead(),
		Undecided:       c.GetUndecided(),
	}
	if c.GetUncountedFrames() == 0 {
		tokens := c.GetTokensArrived()
		s.TokensArrived = &tokens
	}
	return s
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

// throughputs are the rates of what completed over a duration, nil where they are not known.
func throughputs(c *spatev1.Counters, duration *float64) (requests, output, total *float64) {
	if duration == nil || *duration <= 0 {
		return nil, nil, nil
	}
	rate := func(count uint64) *float64 { r := float64(count) / *duration; return &r }
	if input := inputTokens(c); input != nil {
		total = rate(*input + c.GetOutputTokens())
	}
	return rate(c.GetCompleted()), rate(c.GetOutputTokens()), total
}

// arrivals is the time in which measured requests started, nil if it is not known or fewer than two did.
func (s *Stage) arrivals() *ArrivalTime {
	first, last, ok := s.spanTo((*spatev1.Totals).GetLastStartNs)
	c := s.total.counters
	started := float64(c.GetStarted())
	if !ok || started < 2 || first == last {
		return nil
	}
	a := &ArrivalTime{DurationS: float64(last-first) / nanosPerSecond * started / (started - 1)}
	a.Rate = started / a.DurationS
	a.RequestThroughput = float64(c.GetCompleted()) / a.DurationS
	a.OutputTokenThroughput = float64(c.GetOutputTokens()) / a.DurationS
	return a
}

// span is the time from the first measured start to the last measured end of any agent.
func (s *Stage) span() (from, to int64, ok bool) { return s.spanTo((*spatev1.Totals).GetLastEndNs) }

// spanTo is the time from the first measured start to the latest of what agents' totals tell.
func (s *Stage) spanTo(latest func(*spatev1.Totals) int64) (from, to int64, ok bool) {
	return spanOf(maps.Values(s.agents), latest)
}

// spanOf is spanTo for some agents.
func spanOf(agents iter.Seq[*agentTally], latest func(*spatev1.Totals) int64) (from, to int64, ok bool) {
	from, to = math.MaxInt64, math.MinInt64
	for a := range agents {
		if a.totals == nil || a.totals.FirstStartNs == nil || a.totals.LastEndNs == nil {
			continue
		}
		from, to, ok = min(from, a.totals.GetFirstStartNs()), max(to, latest(a.totals)), true
	}
	return from, to, ok && from <= to
}

// tokensIn is how many output tokens arrived in a window, false if that is not known: as they came, where running usage
// told those of all frames; else after the fact, where usage told those of all completed requests.
func (s *Stage) tokensIn(w *windowTally) (tokens uint64, known bool) {
	c := s.total.counters
	if c.GetUncountedFrames() == 0 {
		return w.tokensArrived, true
	}
	return w.tokens, c.GetWithoutUsage() == 0
}

// peakTokens is the largest number of tokens in a window, nil if there is no window of which it is known.
func (s *Stage) peakTokens() *float64 {
	var peak *float64
	for number, w := range s.windows {
		tokens, known := s.tokensIn(w)
		if n := float64(tokens); known && !s.blurred(number) && (peak == nil || n > *peak) {
			peak = &n
		}
	}
	return peak
}

// blurred says whether what an agent delivered of a window is one with other windows.
func (s *Stage) blurred(number uint32) bool {
	return slices.ContainsFunc(s.spans, func(m span) bool { return m.first <= number && number <= m.last })
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

// steadyWindows are the whole windows from first to before end in which every agent with load was steady, false if
// there are none.
func (s *Stage) steadyWindows() (first, end int64, ok bool) {
	first, end, ok = s.windowsOf(func(t *spatev1.Totals) (from, to *int64) { return t.SteadyFromNs, t.SteadyToNs })
	if ok {
		first, end = s.unsplit(first, end)
	}
	return first, end, ok && first < end
}

// unsplit narrows the windows from first to before end until no snapshot of several windows lies across their ends.
func (s *Stage) unsplit(first, end int64) (narrowFirst, narrowEnd int64) {
	for again := true; again && first < end; {
		again = false
		for _, m := range s.spans {
			from, to := int64(m.first), int64(m.last)
			if from < first && first <= to {
				first, again = to+1, true
			}
			if from < end && end <= to {
				end, again = from, true
			}
		}
	}
	return first, end
}

// windowsOf are the whole windows from first to before end that lie in a span of every agent with load, false if there
// are none or an agent's span is not known. The load is whole again when others have taken the part of a lost agent
// over; if nobody has, it was whole until then, as long as the agent could still say when it was steady.
func (s *Stage) windowsOf(span func(*spatev1.Totals) (from, to *int64)) (first, end int64, ok bool) {
	from, to := int64(0), int64(math.MaxInt64)
	for _, a := range s.agents {
		if a.takenOver() {
			from = max(from, a.loss.GetTakenOverNs())
			continue
		}
		if a.totals == nil {
			return 0, 0, false
		}
		if a.totals.GetCounters().GetStarted() == 0 {
			continue // an agent without a share
		}
		ownFrom, ownTo := span(a.totals)
		if a.loss != nil {
			lost := int64(a.loss.GetFromWindow()) * nanosPerSecond
			ownTo = &lost
		}
		if ownFrom == nil || ownTo == nil {
			return 0, 0, false
		}
		from, to, ok = max(from, *ownFrom), min(to, *ownTo), true
	}
	first, end = (from+nanosPerSecond-1)/nanosPerSecond, to/nanosPerSecond
	return first, end, ok && first < end
}

// steadyBetween sums up the windows from first to before end. Whole completions would tell more of where the ends lie
// between waves of requests than of the rate, where requests take long: 19.7 req/s for 24.4 was seen. Their parts do
// not.
func (s *Stage) steadyBetween(first, end int64) *Steady {
	var requests, tokens uint64
	allKnown := true
	for number, w := range s.windows {
		if int64(number) >= first && int64(number) < end {
			n, known := s.tokensIn(w)
			requests, tokens, allKnown = requests+w.requests, tokens+n, allKnown && known
		}
	}
	duration := float64(end - first)
	steady := &Steady{
		FromS:             float64(first),
		ToS:               float64(end),
		DurationS:         duration,
		RequestThroughput: float64(requests) / million / duration,
	}
	if allKnown {
		rate := float64(tokens) / duration
		steady.OutputTokenThroughput = &rate
	}
	return steady
}

// addLengths compares the sequence lengths with those asked for, and sums up what else is no latency.
func (s *Stage) addLengths(r *StageResult, w *spatev1.Workload) {
	c := s.total.counters
	r.TokensPerFrame = s.total.distribution(spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME)
	r.ISL = SequenceLength{
		Asked:       unlessZero(w.GetRandom().GetIsl()),
		Seen:        s.total.distribution(spatev1.Metric_METRIC_ISL),
		Missed:      c.GetIslMissed(),
		MissedShare: share(c.GetIslMissed(), c.GetIslCompared()),
	}
	r.OSL = SequenceLength{
		Asked:       unlessZero(w.GetRandom().GetOsl()),
		Seen:        s.total.distribution(spatev1.Metric_METRIC_OSL),
		Missed:      c.GetOslMissed(),
		MissedShare: share(c.GetOslMissed(), c.GetCompleted()),
	}
}

// endpointResults breaks the stage down by endpoint.
func (s *Stage) endpointResults(target *spatev1.Target) []EndpointResult {
	results := make([]EndpointResult, 0, len(s.endpoints))
	for i, t := range s.endpoints {
		results = append(results, EndpointResult{URL: redacted(target.GetEndpoints()[i]), Breakdown: t.breakdown()})
	}
	return results
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
