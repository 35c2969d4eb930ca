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

// Result returns the result of the snapshots merged so far. rec is the stage's current record.
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

// serverResults returns the server metrics of the measured part of the stage: between the first start and the last end,
// or of the whole stage if these are not known.
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

// neverSent returns the number of requests never sent, or nil if an agent's totals are missing or its stripe was taken
// over. In the latter case other agents sent an unknown part of what it did not send.
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

// streamsOf returns the counters of connections, frames and reads.
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

// inputTokens returns the input tokens of completed requests, or nil if some of these had no usage: the sum of the
// others would be too small.
func inputTokens(c *spatev1.Counters) *uint64 {
	if c.GetWithoutUsage() > 0 {
		return nil
	}
	tokens := c.GetInputTokens()
	return &tokens
}

// outputTokensCounted returns how output tokens were counted, or nil if no request completed.
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

// throughputs returns the rates over a duration of completed requests, their output tokens, and their input and output
// tokens. A rate that is not known is nil.
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

// arrivals returns the time in which measured requests started, or nil if that is not known or fewer than two requests
// started.
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

// span returns the time from the first measured start to the last measured end over all agents.
func (s *Stage) span() (from, to int64, ok bool) { return s.spanTo((*spatev1.Totals).GetLastEndNs) }

// spanTo returns the time from the first measured start to the largest value of latest over all agents' totals.
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

// tokensIn returns how many output tokens arrived in a window, and false if that is not known. If running usage covers
// all frames, tokens are counted as they arrived. Otherwise, if all completed requests had usage, their tokens were
// assigned to windows after the requests had ended.
func (s *Stage) tokensIn(w *windowTally) (tokens uint64, known bool) {
	c := s.total.counters
	if c.GetUncountedFrames() == 0 {
		return w.tokensArrived, true
	}
	return w.tokens, c.GetWithoutUsage() == 0
}

// peakTokens returns the largest number of tokens in a window, or nil if the number is not known for any window.
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

// blurred reports whether an agent delivered a window merged with other windows in one snapshot.
func (s *Stage) blurred(number uint32) bool {
	return slices.ContainsFunc(s.spans, func(m span) bool { return m.first <= number && number <= m.last })
}

// peakConcurrency returns the largest sum of the agents' peaks in a window, or nil if there is no window.
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

// steady returns the rates over the whole windows in which every agent with load was steady, or nil if there is no such
// window.
func (s *Stage) steady() *Steady {
	if first, end, ok := s.steadyWindows(); ok {
		return s.steadyBetween(first, end)
	}
	return nil
}

// steadyWindows returns the whole windows in which every agent with load was steady: from first up to, but not
// including, end. ok is false if there is none.
func (s *Stage) steadyWindows() (first, end int64, ok bool) {
	first, end, ok = s.windowsOf(func(t *spatev1.Totals) (from, to *int64) { return t.SteadyFromNs, t.SteadyToNs })
	if ok {
		first, end = s.unsplit(first, end)
	}
	return first, end, ok && first < end
}

// unsplit narrows the windows [first, end) until no snapshot of several windows crosses either end.
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

// windowsOf returns the whole windows [first, end) that lie within the given span of every agent with load. ok is false
// if there is none, or if an agent's span is not known. After a handover, windows count from the time at which other
// agents took over a lost agent's stripe, because the load is complete again from then on. Without a handover, windows
// count until the agent was lost, provided that it reported when its span started.
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
			continue // an agent without load
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

// steadyBetween summarizes the windows [first, end). A request counts by the part of its time in these windows. If
// requests take long, counting whole completions would depend on where the ends lie between waves of requests: 19.7
// req/s instead of 24.4 was seen.
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

// addLengths adds the sequence lengths, compared with those that the workload asked for, and the tokens per frame.
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

// endpointResults returns the results by endpoint.
func (s *Stage) endpointResults(target *spatev1.Target) []EndpointResult {
	results := make([]EndpointResult, 0, len(s.endpoints))
	for i, t := range s.endpoints {
		results = append(results, EndpointResult{URL: redacted(target.GetEndpoints()[i]), Breakdown: t.breakdown()})
	}
	return results
}

// redacted returns a URL with its password replaced by xxxxx.
func redacted(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.User == nil {
		return endpoint
	}
	return u.Redacted()
}

// millis converts nanoseconds to milliseconds.
func millis(ns int64) float64 { return float64(ns) / nanosPerMs }

// seconds converts a duration to seconds. It returns nil for nil.
func seconds(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.AsDuration().Seconds()
	return &s
}

// timeText formats a time as RFC 3339 in UTC. It returns nil for nil.
func timeText(t *timestamppb.Timestamp) *string {
	if t == nil {
		return nil
	}
	text := t.AsTime().UTC().Format(time.RFC3339Nano)
	return &text
}

// share returns part / whole, or nil if whole is 0.
func share(part, whole uint64) *float64 {
	if whole == 0 {
		return nil
	}
	s := float64(part) / float64(whole)
	return &s
}

// unlessZero returns nil for a zero value, which means "not given" in the protocol's messages, and a pointer to v
// otherwise.
func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
