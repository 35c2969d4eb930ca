package results

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sums are the merged measurements of a stage, from which its result is made.
type sums struct{ *merge.Sums }

// OfStage returns the result of the snapshots merged so far. rec is the stage's current record.
func OfStage(merged *merge.Stage, rec *spatev1.StageRecord) (r StageResult) {
	merged.Read(rec, func(s *merge.Sums) { r = sums{s}.result(rec) })
	r.Examples = []Example{}
	return r
}

// MostFrequentError returns the class of most of the stage's errors, the first by name if several have as many, or ""
// if there are none.
func (r *StageResult) MostFrequentError() string { return trust.MostFrequent(r.Errors) }

// result returns the stage's result.
func (s sums) result(rec *spatev1.StageRecord) StageResult {
	missing := s.missing(rec)
	stage := rec.GetStage()
	r := StageResult{
		Index:     stage.GetIndex(),
		Target:    stage.GetTarget().GetName(),
		Workload:  stage.GetWorkload().GetName(),
		Load:      loadOf(stage.GetLoad()),
		Model:     stage.GetTarget().GetModel(),
		API:       stage.GetTarget().GetApi(),
		Stream:    defaults.Streams(stage.GetTarget()),
		Seed:      stage.GetSeed(),
		Probe:     probeOf(stage.GetProbe()),
		Enough:    unlessZero(rec.GetEnough()),
		StartTime: timeText(rec.GetStartTime()),
		Complete:  len(missing) == 0,
		Missing:   missing,
		Requests:  s.requests(rec),
		Streams:   streamsOf(s.Total.Counters),
		Reasoning: reasoningOf(s.Total),
		VLLM:      s.vllm(),

		InputTokens:         merge.InputTokens(s.Total.Counters),
		OutputTokens:        merge.OutputTokens(s.Total.Counters),
		OutputTokensCounted: outputTokensCounted(s.Total.Counters),

		Arrivals: s.arrivals(),

		PeakOutputTokenThroughput: s.peakTokens(),
		PeakConcurrency:           s.peakConcurrency(),
		Steady:                    s.steady(),

		PrefixCache: prefixCacheOf(s.Total.Counters),
		Endings:     endingsOf(s.Total), AnswerModels: answerModels(s.Total),
		Images: imagesOf(s.Total.Counters), Tools: toolsOf(s.Total.Counters),
		Answers: answersOf(s.Total.Counters), Canaries: canariesOf(s.Total.Counters, quietOf(rec.GetAgents())),
		Sessions:     s.sessions(stage.GetWorkload()),
		Dataset:      datasetOf(stage.GetDataset()),
		Preparations: preparationsOf(rec),

		Errors:        s.Total.ErrorCounts(),
		ErrorExamples: s.Total.ErrorExamples(),
		Endpoints:     s.endpointResults(stage.GetTarget(), quietOf(rec.GetAgents())),
		Agents:        s.agentResults(rec),

		Latencies:      latenciesOf(s.Total),
		StartSpread:    s.startSpread(rec),
		ServerAccount:  s.serverAccount(),
		DroppedRecords: s.droppedRecords(),
	}
	if rec.MeasuredFromNs != nil {
		r.MeasuredFromS = new(float64(rec.GetMeasuredFromNs()) / nanosPerSecond)
	}
	if from, to, ok := s.Span(); ok {
		r.DurationS = new(float64(to-from) / nanosPerSecond)
	}
	r.RequestThroughput, r.OutputTokenThroughput, r.TotalTokenThroughput =
		merge.Throughputs(s.Total.Counters, r.DurationS)
	if defaults.API(stage.GetTarget()).NoOutput && r.InputTokens != nil && r.RequestThroughput != nil {
		r.TotalTokenThroughput = new(float64(*r.InputTokens) / *r.DurationS) // all tokens are the prompts'
	}
	if n := s.Total.Counters.GetTexts(); n > 0 && r.RequestThroughput != nil {
		r.TextThroughput = new(float64(n) / *r.DurationS)
	}
	r.Parts = s.partResults(stage, r.DurationS)
	r.Goodput = goodputOf(wholeSLO(stage), s.Total.Counters, r.DurationS)
	r.Servers, r.GPUs = s.serverResults(r.DurationS)
	r.Engine, r.EngineRoles = servermetrics.Engines(r.Servers), servermetrics.EngineRoles(r.Servers)
	r.Regions = s.regionResults(rec, r.DurationS)
	s.addLengths(&r, stage)
	r.Trust = s.trustOf(rec, &r)
	return r
}

// serverResults returns the metrics of servers and GPUs of the measured part of the stage: between the first start and
// the last end, or of the whole stage if these are not known. span is the length of the measured part in seconds.
func (s sums) serverResults(span *float64) ([]servermetrics.ServerResult, *servermetrics.GPUResult) {
	first, last := uint32(0), uint32(measure.MaxWindow)
	if from, to, ok := s.Span(); ok {
		first, last = uint32(max(from, 0)/nanosPerSecond), uint32(max(to, 0)/nanosPerSecond)
	}
	work := servermetrics.Work{Span: span}
	if tokens := merge.OutputTokens(s.Total.Counters); tokens != nil {
		work.OutputTokens = *tokens
	}
	return s.Servers.Results(s.Target, first, last), s.Servers.GPUs(s.Target, first, last, work)
}

// requests counts the stage's requests.
func (s sums) requests(rec *spatev1.StageRecord) Requests {
	c := s.Total.Counters
	r := Requests{
		Outcomes:     outcomes(c),
		NeverSent:    s.unsent((*spatev1.Totals).GetNeverSent),
		AfterFailure: s.unsent((*spatev1.Totals).GetUnsentAfterFailure),
		Unmeasured:   c.GetUnmeasuredStarted(),
	}
	if load := rec.GetStage().GetLoad(); load.GetDuration() == nil {
		r.Planned = unlessZero(load.GetRequests())
	}
	return r
}

// unsent returns the sum of a number of requests never sent, or nil if an agent's totals are missing or its stripe was
// taken over. In the latter case other agents sent an unknown part of what it did not send.
func (s sums) unsent(of func(*spatev1.Totals) uint64) *uint64 {
	sum := uint64(0)
	for _, a := range s.Agents {
		if a.Totals == nil || a.TakenOver() {
			return nil
		}
		sum += of(a.Totals)
	}
	return &sum
}

// fill sets the numbers of a result to the counters of the same names.
func fill(result any, c *spatev1.Counters) {
	to, from := reflect.ValueOf(result).Elem(), reflect.ValueOf(c).Elem()
	for i := range to.NumField() {
		if field := to.Field(i); field.Kind() == reflect.Uint64 {
			field.SetUint(from.FieldByName(to.Type().Field(i).Name).Uint())
		}
	}
}

// streamsOf returns the counters of connections, frames and reads.
func streamsOf(c *spatev1.Counters) (s Streams) {
	fill(&s, c)
	if c.GetUncountedFrames() == 0 {
		s.TokensArrived = new(c.GetTokensArrived())
	}
	return s
}

// outputTokensCounted returns how output tokens were counted, or nil if they are not known or no request completed.
func outputTokensCounted(c *spatev1.Counters) *string {
	counted := "mixed"
	switch {
	case c.GetCompleted() == 0, c.GetUncountedOutputs() > 0:
		return nil
	case c.GetWithoutUsage() == 0:
		counted = "usage"
	case c.GetWithoutUsage() == c.GetCompleted():
		counted = "frames"
	}
	return &counted
}

// arrivals returns the time in which measured requests started, or nil if that is not known or fewer than two requests
// started.
func (s sums) arrivals() *ArrivalTime {
	first, last, ok := s.SpanTo((*spatev1.Totals).GetLastStartNs)
	c := s.Total.Counters
	started := float64(c.GetStarted())
	if !ok || started < 2 || first == last {
		return nil
	}
	a := &ArrivalTime{DurationS: float64(last-first) / nanosPerSecond * started / (started - 1)}
	a.Rate = started / a.DurationS
	a.RequestThroughput = float64(c.GetCompleted()) / a.DurationS
	if tokens := merge.OutputTokens(c); tokens != nil {
		a.OutputTokenThroughput = new(float64(*tokens) / a.DurationS)
	}
	return a
}

// tokensIn returns how many output tokens arrived in a window, and false if that is not known. If running usage covers
// all frames, tokens are counted as they arrived. Otherwise, if all completed requests had usage, their tokens were
// assigned to windows after the requests had ended.
func (s sums) tokensIn(w *merge.Window) (tokens uint64, known bool) {
	c := s.Total.Counters
	switch {
	case c.GetUncountedOutputs() > 0:
		return 0, false
	case c.GetUncountedFrames() == 0:
		return w.TokensArrived, true
	}
	return w.Tokens, c.GetWithoutUsage() == 0
}

// peakTokens returns the largest number of tokens in a window, or nil if the number is not known for any window.
func (s sums) peakTokens() *float64 {
	var peak *float64
	for number, w := range s.Windows {
		tokens, known := s.tokensIn(w)
		if n := float64(tokens); known && !s.Blurred(number) && (peak == nil || n > *peak) {
			peak = &n
		}
	}
	return peak
}

// peakConcurrency returns the largest sum of the agents' peaks in a window, or nil if there is no window.
func (s sums) peakConcurrency() *PeakConcurrency {
	if len(s.Windows) == 0 {
		return nil
	}
	p := &PeakConcurrency{Exact: len(s.Agents) == 1}
	for number := range s.Windows {
		p.Requests = max(p.Requests, s.InFlight(int(number)))
	}
	return p
}

// steady returns the rates over the whole windows in which every agent with load was steady, or nil if there is no such
// window.
func (s sums) steady() *Steady {
	first, end, ok := s.WindowsOf(func(t *spatev1.Totals) (from, to *int64) { return t.SteadyFromNs, t.SteadyToNs })
	if ok {
		first, end = s.Unsplit(first, end)
	}
	if !ok || first >= end {
		return nil
	}
	return s.steadyBetween(first, end)
}

// steadyBetween summarizes the windows [first, end). A request counts by the part of its time in these windows. If
// requests take long, counting whole completions would depend on where the ends lie between waves of requests: 19.7
// req/s instead of 24.4 was seen.
func (s sums) steadyBetween(first, end int64) *Steady {
	var requests, tokens uint64
	allKnown := true
	for number, w := range s.Windows {
		if int64(number) >= first && int64(number) < end {
			n, known := s.tokensIn(w)
			requests, tokens, allKnown = requests+w.MicroRequests, tokens+n, allKnown && known
		}
	}
	duration := float64(end - first)
	steady := &Steady{
		FromS:             float64(first),
		ToS:               float64(end),
		DurationS:         duration,
		RequestThroughput: float64(requests) / microPerRequest / duration,
	}
	if allKnown {
		steady.OutputTokenThroughput = new(float64(tokens) / duration)
	}
	return steady
}

// steadySeconds returns the windows of the steady part, for the notes about the stage's course.
func (s sums) steadySeconds(steady *Steady, open bool) (all []trust.Second) {
	if steady == nil {
		return nil
	}
	for number := int64(steady.FromS); number < int64(steady.ToS); number++ {
		w := cmp.Or(s.Windows[uint32(number)], &merge.Window{}) //nolint:gosec // windows have 32 bits
		second := trust.Second{Number: number, InFlight: s.InFlight(int(number)), Rate: float64(w.MicroRequests)}
		second.Silent = w.Silent() && second.InFlight > w.Started
		if tokens, known := s.tokensIn(w); known {
			second.Rate = float64(tokens)
		}
		if open {
			second.Rate = float64(second.InFlight)
		}
		all = append(all, second)
	}
	return all
}

// addLengths adds the sequence lengths, compared with those that the workload asked for, and the tokens per frame.
func (s sums) addLengths(r *StageResult, stage *spatev1.Stage) {
	w, c := stage.GetWorkload(), s.Total.Counters
	r.TokensPerFrame = s.Total.Summary(spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME)
	r.ISL = SequenceLength{
		Asked:       unlessZero(w.GetRandom().GetIsl() * max(1, w.GetRandom().GetTexts())), // of all texts of a request
		Seen:        s.Total.Summary(spatev1.Metric_METRIC_ISL),
		Missed:      c.GetIslMissed(),
		MissedShare: share(c.GetIslMissed(), c.GetIslCompared()),
	}
	r.OSL = SequenceLength{
		Asked:       unlessZero(w.GetRandom().GetOsl()),
		Seen:        s.Total.Summary(spatev1.Metric_METRIC_OSL),
		Missed:      c.GetOslMissed(),
		MissedShare: share(c.GetOslMissed(), c.GetCompleted()),
	}
	if defaults.API(stage.GetTarget()).NoOutput {
		r.OSL.Asked = nil
	}
}

// endpointResults returns the results by endpoint.
func (s sums) endpointResults(target *spatev1.Target, quiet []*spatev1.QuietCount) []EndpointResult {
	results := make([]EndpointResult, 0, len(s.Endpoints))
	for i, t := range s.Endpoints {
		url := naming.Redacted(target.GetEndpoints()[i])
		canaries := canariesOf(t.Counters, quiet[min(i, len(quiet)):min(i+1, len(quiet))])
		results = append(results, EndpointResult{URL: url, Canaries: canaries, Breakdown: breakdown(t)})
	}
	return results
}

// Units.
const (
	nanosPerMs      = 1e6
	nanosPerSecond  = 1e9
	microPerRequest = 1e6
)

// millis converts nanoseconds to milliseconds.
func millis(ns int64) float64 { return float64(ns) / nanosPerMs }

// seconds converts a duration to seconds. It returns nil for nil.
func seconds(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.AsDuration().Seconds())
}

// timeText formats a time as RFC 3339 in UTC. It returns nil for nil.
func timeText(t *timestamppb.Timestamp) *string {
	if t == nil {
		return nil
	}
	return new(t.AsTime().UTC().Format(time.RFC3339Nano))
}

// share returns part / whole, or nil if whole is 0.
func share(part, whole uint64) *float64 {
	if whole == 0 {
		return nil
	}
	return new(float64(part) / float64(whole))
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

// serverAccount compares the servers' own account of the stage so far with the clients'. It returns nil if there is
// none.
func (s sums) serverAccount() *servermetrics.ServerAccount {
	of := s.Total.Summary
	return s.Servers.Compare(servermetrics.Client{
		Measured: s.Total.Counters.GetCompleted(),
		Sent: s.Total.Counters.GetStarted() + s.Total.Counters.GetUnmeasuredStarted() + s.Total.Counters.GetCanaries() +
			s.Total.Counters.GetCanariesFailed(),
		TTFT: of(spatev1.Metric_METRIC_TTFT), ITL: of(spatev1.Metric_METRIC_ITL),
		TPOT:      of(spatev1.Metric_METRIC_TPOT),
		E2E:       of(spatev1.Metric_METRIC_E2E),
		SendDelay: of(spatev1.Metric_METRIC_SEND_DELAY), ReceiveLag: of(spatev1.Metric_METRIC_RECEIVE_LAG),
		Connect: of(spatev1.Metric_METRIC_CONNECT), RTT: of(spatev1.Metric_METRIC_RTT),
	})
}

// Second is what happened in one window of a stage, over all agents.
type Second struct {
	// Window is the number of the window.
	Window uint32
	// Started and Failed are measured requests that started, and that failed.
	Started, Failed uint64
	// InFlight is the most requests in flight, as in peak_concurrency.
	InFlight uint64
	// Agents are those that measured.
	Agents uint64
	// Tokens are the output tokens that arrived, counted as for the peak. Nil: not known.
	Tokens *uint64
	// Load is what servers and GPUs reported.
	Load servermetrics.Load
}

// SecondsOf returns the windows of a merged stage, in order. Windows that no agent delivered are not there.
func SecondsOf(merged *merge.Stage, rec *spatev1.StageRecord) (seconds []Second) {
	merged.Read(rec, func(all *merge.Sums) {
		s, loads := sums{all}, all.Servers.Loads()
		for _, number := range slices.Sorted(maps.Keys(s.Windows)) {
			w := s.Windows[number]
			second := Second{Window: number, Started: w.Started, Failed: w.Failed,
				InFlight: s.InFlight(int(number)), Agents: s.Delivered(number), Load: loads[number]}
			if tokens, known := s.tokensIn(w); known {
				second.Tokens = &tokens
			}
			seconds = append(seconds, second)
		}
	})
	return seconds
}
