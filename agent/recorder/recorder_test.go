package recorder

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const start = clock.Instant(5 * time.Second)

// at returns an instant of the stage.
func at(d time.Duration) clock.Instant { return start.Add(d) }

// tape is a recorder with a clock that the test sets, and the snapshots that it emitted.
type tape struct {
	*Recorder
	now       atomic.Int64
	snapshots []*spatev1.Snapshot
}

func newTape(endpoints, shards int, records bool) *tape {
	t := &tape{}
	t.now.Store(int64(start))
	t.Recorder = New(Config{
		Start: start, Endpoints: endpoints, Shards: shards, Records: records,
		Emit: func(s *spatev1.Snapshot) { t.snapshots = append(t.snapshots, s) },
		Now:  func() clock.Instant { return clock.Instant(t.now.Load()) },
	})
	return t
}

// turn sets the clock.
func (t *tape) turn(to clock.Instant) { t.now.Store(int64(to)) }

// frame returns a frame after ns nanoseconds: "t" carries a token, "c" is one of vLLM's chunks, "tc" is both.
func frame(ns time.Duration, kind string) stream.Frame {
	return stream.NewFrame(at(ns), strings.Contains(kind, "t"), strings.Contains(kind, "c"))
}

// fullRequest returns a request with a different value for each measurement. Its first token has no text.
func fullRequest() (*Request, *stream.Observation) {
	q := &Request{Index: 7, Turn: 2, Endpoint: 1, Scheduled: at(100), ISL: 12, OSL: 4, Shared: 8,
		Texts: 3, BodyHash: 99}
	o := &stream.Observation{
		Start: at(1100), Sent: at(1500), FirstByte: at(2000), FirstToken: at(4100), LastToken: at(10_100),
		End:     at(10_200),
		Connect: 77, DNS: 7, TCP: 30, TLS: 40, Connected: true, RTT: 33, Lags: []int64{5, 6, 7},
		HeadTokens: 2,
		Frames: []stream.Frame{frame(3100, "c"), frame(4100, "tc"), frame(6600, "tc"), frame(10_100, "tc"),
			frame(10_150, "c")},
		FirstText: at(6600), FirstAnswer: at(10_100), ReasoningFrames: 1, ReasoningTokens: 3, HasReasoningTokens: true,
		TextBytes: 21, Replaced: true,
		Server: stream.ServerTiming{TTFT: new(2900 * time.Nanosecond), Queue: new(700 * time.Nanosecond),
			Prefill: new(2200 * time.Nanosecond), Total: new(8900 * time.Nanosecond)},
		InputTokens: 10, OutputTokens: 5, Usage: true, CachedTokens: 6, HasCachedTokens: true, TokenFrames: 3,
		CoalescedReads: 1, UnstampedFrames: 2, SharedFrames: 1, LateFirst: true, LateLast: true, HTTPStatus: 200, FinishReason: "stop",
	}
	return q, o
}

func TestCompletedRequestMeasuresAllByDefinition(t *testing.T) {
	tape := newTape(2, 1, true)
	q, o := fullRequest()
	s := tape.Shard(0)
	s.RecordStart(q, o.Start)
	s.RecordToken(q, o.FirstToken, 2)
	s.RecordEnd(q, o)
	totals := &spatev1.Totals{}
	tape.Finish(totals)

	series := tape.snapshots[0].GetSeries()[0]
	if series.GetEndpoint() != 1 {
		t.Errorf("endpoint %d", series.GetEndpoint())
	}
	want := &spatev1.Counters{
		Started: 1, Completed: 1, InputTokens: 10, OutputTokens: 5, Frames: 1, TokensArrived: 2,
		TokenFrames: 3, Chunks: 5, TextBytes: 21, ReasoningTokens: 3, GarbledAnswers: 1,
		IslMissed: 1, OslMissed: 1, Connections: 1, CoalescedReads: 1, UnstampedFrames: 2, SharedFrames: 1,
		LateFirstFrames: 1, LateLastFrames: 1,
		CachedTokens: 6, WithCachedTokens: 1, SharedTokens: 8, IslCompared: 1, IslFar: 1, WithHeadTokens: 1,
		HeadTokens: 2, Texts: 3,
	}
	if diff := cmp.Diff(want, series.GetCounters(), protocmp.Transform()); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, totals.GetCounters(), protocmp.Transform()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	sums := map[spatev1.Metric]uint64{
		spatev1.Metric_METRIC_TTFT:                  3000,
		spatev1.Metric_METRIC_TTFT_SCHEDULED:        4000,
		spatev1.Metric_METRIC_E2E:                   9000,
		spatev1.Metric_METRIC_E2E_SCHEDULED:         10_000,
		spatev1.Metric_METRIC_TPOT:                  1500,
		spatev1.Metric_METRIC_ITL:                   6000,
		spatev1.Metric_METRIC_SEND_DELAY:            1000,
		spatev1.Metric_METRIC_CONNECT:               77,
		spatev1.Metric_METRIC_ISL:                   10,
		spatev1.Metric_METRIC_OSL:                   5,
		spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME: 1667,
		spatev1.Metric_METRIC_RECEIVE_LAG:           18,
		spatev1.Metric_METRIC_VLLM_TTFT:             2000,
		spatev1.Metric_METRIC_VLLM_ITL_ADDED:        1000 + 50,
		spatev1.Metric_METRIC_VLLM_TPOT:             1763, // 7050 / 4
		spatev1.Metric_METRIC_VLLM_E2E:              9050,
		spatev1.Metric_METRIC_TTFT_TEXT:             5500,
		spatev1.Metric_METRIC_TTFT_ANSWER:           9000,
		spatev1.Metric_METRIC_REASONING:             6000,
		spatev1.Metric_METRIC_REASONING_TOKENS:      3,
		spatev1.Metric_METRIC_SERVER_TTFT:           2900,
		spatev1.Metric_METRIC_SERVER_QUEUE:          700,
		spatev1.Metric_METRIC_SERVER_PREFILL:        2200,
		spatev1.Metric_METRIC_SERVER_TOTAL:          8900,
		spatev1.Metric_METRIC_RTT:                   33,
		spatev1.Metric_METRIC_DNS:                   7,
		spatev1.Metric_METRIC_TCP:                   30,
		spatev1.Metric_METRIC_TLS:                   40,
	}
	if diff := cmp.Diff(sums, sumsOf(series)); diff != "" {
		t.Errorf("sums of values (-want +got):\n%s", diff)
	}
	if totals.GetFirstStartNs() != 1100 || totals.GetLastEndNs() != 10_200 {
		t.Errorf("span %d to %d", totals.GetFirstStartNs(), totals.GetLastEndNs())
	}
}

// Each new connection reports the round trip to its endpoint, however the request that opened it ended. Where the
// kernel does not report it, none does.
func TestRoundTripsAreThoseOfConnections(t *testing.T) {
	tape := newTape(1, 1, false)
	for _, c := range []struct {
		unmeasured bool
		o          stream.Observation
	}{
		{true, stream.Observation{Connected: true, RTT: 5000}},
		{false, stream.Observation{Connected: true, RTT: 7000,
			Err: &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_TIMEOUT}}},
		{false, stream.Observation{Connected: true, RTT: 9000, Cancelled: true}},
		{false, stream.Observation{Connected: true}},
		{false, stream.Observation{}},
	} {
		c.o.Start, c.o.End = at(1000), at(2000)
		q := &Request{Unmeasured: c.unmeasured, Scheduled: at(1000)}
		tape.Shard(0).RecordStart(q, c.o.Start)
		tape.Shard(0).RecordEnd(q, &c.o)
	}
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	if got := sumsOf(tape.snapshots[0].GetSeries()[0])[spatev1.Metric_METRIC_RTT]; got != 21_000 {
		t.Errorf("round trips of %d ns, want 21000", got)
	}
	for _, v := range totals.GetValues() {
		if v.GetMetric() == spatev1.Metric_METRIC_RTT && v.GetCount() != 3 {
			t.Errorf("totals of %d round trips, want 3", v.GetCount())
		}
	}
}

// sumsOf returns the exact sums of a series' distributions.
func sumsOf(s *spatev1.Series) map[spatev1.Metric]uint64 {
	sums := map[spatev1.Metric]uint64{}
	for _, d := range s.GetDistributions() {
		sums[d.GetMetric()] = d.GetSum().GetLow()
	}
	return sums
}

func TestRowHoldsTheRequest(t *testing.T) {
	tape := newTape(2, 1, true)
	q, o := fullRequest()
	tape.Shard(0).RecordStart(q, o.Start)
	tape.Shard(0).RecordEnd(q, o)
	*q, *o = Request{Texts: 99}, stream.Observation{} // as a worker reuses them
	tape.Finish(&spatev1.Totals{})
	want := &spatev1.RequestRecord{
		Index: 7, Turn: 2, Endpoint: 1, ScheduledNs: 100, StartNs: 1100, SentNs: proto.Int64(1500),
		FirstByteNs:  proto.Int64(2000),
		FirstChunkNs: proto.Int64(3100), LastChunkNs: proto.Int64(10_150), Chunks: 5, FirstTextNs: proto.Int64(6600),
		FirstAnswerNs:   proto.Int64(10_100),
		ReasoningTokens: proto.Uint64(3), TextBytes: 21, Garbled: true, FirstTokenNs: proto.Int64(4100),
		LastTokenNs: proto.Int64(10_100), EndNs: 10_200,
		ConnectNs: proto.Int64(77), DnsNs: proto.Int64(7), TcpNs: proto.Int64(30), TlsNs: proto.Int64(40),
		ItlNs: []int64{2500, 3500}, IslAsked: 12, OslAsked: 4, InputTokens: proto.Uint64(10),
		OutputTokens: proto.Uint64(5), Usage: true, TokenFrames: 3, CachedTokens: proto.Uint64(6), SharedTokens: 8,
		ServerQueueNs: proto.Int64(700),
		HttpStatus:    200, BodyHash: 99, FinishReason: "stop", Texts: proto.Uint32(3),
	}
	if diff := cmp.Diff(want, tape.snapshots[0].GetRecords()[0], protocmp.Transform()); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// The time for which the plan held a request back is not a delay of the agent.
func TestHeldIsNotASendDelay(t *testing.T) {
	tape := newTape(2, 1, true)
	q, o := fullRequest()
	q.Held = 600
	tape.Shard(0).RecordStart(q, o.Start)
	tape.Shard(0).RecordEnd(q, o)
	tape.Finish(&spatev1.Totals{})
	sums := sumsOf(tape.snapshots[0].GetSeries()[0])
	held, delay := sums[spatev1.Metric_METRIC_HELD], sums[spatev1.Metric_METRIC_SEND_DELAY]
	if held != 600 || delay != 400 {
		t.Errorf("held for %d ns, sent %d ns late, want 600 and 400", held, delay)
	}
	if e2e := sums[spatev1.Metric_METRIC_E2E_SCHEDULED]; e2e != 10_000 {
		t.Errorf("E2E from schedule %d ns, want 10000", e2e)
	}
	if got := tape.snapshots[0].GetRecords()[0].GetHeldNs(); got != 600 {
		t.Errorf("row of a request held for %d ns, want 600", got)
	}
}

func TestUnfinishedRequestsCountInNoLatency(t *testing.T) {
	const sendDelay, lag, rtt = spatev1.Metric_METRIC_SEND_DELAY, spatev1.Metric_METRIC_RECEIVE_LAG,
		spatev1.Metric_METRIC_RTT
	for name, c := range map[string]struct {
		change  func(*Request, *stream.Observation)
		metrics map[spatev1.Metric]uint64
		count   func(*spatev1.Counters) uint64
		errors  []*spatev1.ErrorCount
	}{
		"cancelled": {
			change:  func(_ *Request, o *stream.Observation) { o.Cancelled = true },
			metrics: map[spatev1.Metric]uint64{rtt: 33, sendDelay: 1000, lag: 18},
			count:   (*spatev1.Counters).GetCancelled,
		},
		"failed by status": {
			change: func(_ *Request, o *stream.Observation) {
				o.Err = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, HTTPStatus: 429,
					Message: "slow \xff down"}
			},
			metrics: map[spatev1.Metric]uint64{rtt: 33, sendDelay: 1000, lag: 18,
				spatev1.Metric_METRIC_FAILURE_TIME: 9100},
			count: (*spatev1.Counters).GetFailed,
			errors: []*spatev1.ErrorCount{
				{Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, HttpStatus: 429, Count: 1, Example: "slow  down"},
			},
		},
		"failed within a good status": {
			change: func(_ *Request, o *stream.Observation) {
				o.Err = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM, HTTPStatus: 200, Message: "cut"}
			},
			metrics: map[spatev1.Metric]uint64{rtt: 33, sendDelay: 1000, lag: 18,
				spatev1.Metric_METRIC_FAILURE_TIME: 9100},
			count: (*spatev1.Counters).GetFailed,
			errors: []*spatev1.ErrorCount{{Class: spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM, Count: 1,
				Example: "cut"}},
		},
		"warm-up": {
			change:  func(q *Request, _ *stream.Observation) { q.Unmeasured = true },
			metrics: map[spatev1.Metric]uint64{rtt: 33},
			count:   (*spatev1.Counters).GetUnmeasuredEnded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tape := newTape(2, 1, false)
			q, o := fullRequest()
			c.change(q, o)
			tape.Shard(0).RecordStart(q, o.Start)
			tape.Shard(0).RecordEnd(q, o)
			tape.Finish(&spatev1.Totals{})
			series := tape.snapshots[0].GetSeries()[0]
			if diff := cmp.Diff(c.metrics, sumsOf(series)); diff != "" {
				t.Errorf("sums of values (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.errors, series.GetErrors(), protocmp.Transform(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if n := c.count(series.GetCounters()); n != 1 {
				t.Errorf("counted %d times", n)
			}
			if n := series.GetCounters().GetCompleted(); n != 0 {
				t.Errorf("%d completed", n)
			}
		})
	}
}

// The request of fullRequest has a TTFT of 3,000 ns, a TPOT of 1,500 and an E2E of 9,000.
func TestGoodRequestsKeepEachLimit(t *testing.T) {
	for name, c := range map[string]struct {
		slo    SLO
		change func(*Request, *stream.Observation)
		want   uint64
	}{
		"no SLO":               {},
		"limits are inclusive": {slo: SLO{TTFT: 3000, TPOT: 1500, E2E: 9000}, want: 1},
		"TTFT missed":          {slo: SLO{TTFT: 2999}},
		"TPOT missed":          {slo: SLO{TTFT: 3000, TPOT: 1499}},
		"E2E missed":           {slo: SLO{E2E: 8999}},
		"one token has no TPOT": {slo: SLO{TPOT: 1},
			change: func(_ *Request, o *stream.Observation) { o.OutputTokens = 1 }, want: 1},
		"failed": {slo: SLO{E2E: 1 << 40},
			change: func(_ *Request, o *stream.Observation) { o.Err = &stream.Error{} }},
		"cancelled": {slo: SLO{E2E: 1 << 40},
			change: func(_ *Request, o *stream.Observation) { o.Cancelled = true }},
		"unmeasured": {slo: SLO{E2E: 1 << 40},
			change: func(q *Request, _ *stream.Observation) { q.Unmeasured = true }},
		"one body, first token late":  {slo: SLO{TTFT: 8999}, change: oneBody},
		"one body, first token early": {slo: SLO{TTFT: 9000, TPOT: 1}, change: oneBody, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			tape := newTape(2, 1, false)
			tape.config.SLOs = []SLO{c.slo}
			q, o := fullRequest()
			if c.change != nil {
				c.change(q, o)
			}
			tape.Shard(0).RecordStart(q, o.Start)
			tape.Shard(0).RecordEnd(q, o)
			totals := &spatev1.Totals{}
			tape.Finish(totals)
			if got := totals.GetCounters().GetGood(); got != c.want {
				t.Errorf("%d good requests, not %d", got, c.want)
			}
			mergeAll(t, tape.snapshots).check(t, totals)
		})
	}
}

// oneBody makes the answer one that was not streamed.
func oneBody(_ *Request, o *stream.Observation) {
	o.WholeAnswer, o.FirstToken = true, o.LastToken
}

// The times of tokens are not recorded of an answer that was requested in one piece, however it comes, and its output
// is counted only if the server told it.
func TestWholeAnswersAreCounted(t *testing.T) {
	tape := newTape(2, 1, true)
	for _, change := range []func(*stream.Observation){
		func(o *stream.Observation) { o.WholeAnswer, o.WholeAsked = true, true },
		func(o *stream.Observation) { o.WholeAsked = true },
		func(o *stream.Observation) { o.WholeAnswer = true },
		func(o *stream.Observation) {
			o.WholeAnswer, o.WholeAsked, o.UncountedOutput = true, true, true
			o.Usage, o.OutputTokens = false, 0
		},
	} {
		q, o := fullRequest()
		change(o)
		tape.Shard(0).RecordStart(q, o.Start)
		tape.Shard(0).RecordEnd(q, o)
	}
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	c := totals.GetCounters()
	if c.GetCompleted() != 4 || c.GetWholeAnswers() != 1 || c.GetStreamedAnswers() != 1 ||
		c.GetUncountedOutputs() != 1 ||
		c.GetWithoutUsage() != 1 || c.GetChunks() != 0 {
		t.Errorf("counters %v", c)
	}
	for _, v := range totals.GetValues() {
		if m := v.GetMetric(); m == spatev1.Metric_METRIC_TTFT || m == spatev1.Metric_METRIC_ITL ||
			m == spatev1.Metric_METRIC_TPOT || m == spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME ||
			m == spatev1.Metric_METRIC_OSL && v.GetCount() != 3 || m == spatev1.Metric_METRIC_E2E && v.GetCount() != 4 {
			t.Errorf("%d values of %v", v.GetCount(), m)
		}
	}
	for _, s := range tape.snapshots {
		for _, row := range s.GetRecords() {
			if row.FirstTokenNs != nil || len(row.GetItlNs()) > 0 || row.GetLastTokenNs() == 0 {
				t.Errorf("row %v", row)
			}
		}
	}
}

func TestUnrequestedLengthsAreNotMissed(t *testing.T) {
	tape := newTape(2, 1, false)
	q, o := fullRequest()
	q.ISL, o.HasCachedTokens, o.CachedTokens = 0, false, 0
	tape.Shard(0).RecordStart(q, o.Start)
	tape.Shard(0).RecordEnd(q, o)
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	c := totals.GetCounters()
	if c.GetIslMissed() != 0 || c.GetIslCompared() != 0 || c.GetOslMissed() != 1 || c.GetInputTokens() != 10 ||
		c.GetWithCachedTokens() != 0 {
		t.Errorf("counters %v", c)
	}
}

func TestTokensOfUnmeasuredRequestsAreCountedApart(t *testing.T) {
	tape := newTape(1, 1, false)
	tape.Shard(0).RecordToken(&Request{Unmeasured: true}, at(1500*time.Millisecond), 3)
	tape.Shard(0).RecordToken(&Request{}, at(1600*time.Millisecond), 2)
	tape.Shard(0).RecordToken(&Request{}, at(1700*time.Millisecond), stream.TokensUnknown)
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	want := &spatev1.Counters{UnmeasuredFrames: 1, Frames: 2, TokensArrived: 2, UncountedFrames: 1}
	if diff := cmp.Diff(want, tape.snapshots[1].GetSeries()[0].GetCounters(), protocmp.Transform()); diff != "" {
		t.Errorf("window 1 (-want +got):\n%s", diff)
	}
}

// The end of a request reports its part of earlier windows: tokens by their frames, the request itself by its time.
func TestSharesOfEarlierWindows(t *testing.T) {
	const second = time.Second
	tape := newTape(2, 2, false)
	end := func(shard int, o *stream.Observation) {
		q := &Request{Endpoint: shard}
		tape.Shard(shard).RecordStart(q, o.Start)
		o.TokenFrames = 0
		for _, f := range o.Frames {
			if f.Token() {
				o.TokenFrames++
			}
		}
		tape.Shard(shard).RecordEnd(q, o)
	}
	// Ten tokens in four frames: 2, 5, 7 and 10 by then. Half of the request's time is in window 1.
	end(0, &stream.Observation{
		Start: at(500 * time.Millisecond), End: at(2500 * time.Millisecond), OutputTokens: 10,
		Frames: []stream.Frame{
			frame(900*time.Millisecond, "c"), frame(1100*time.Millisecond, "tc"), frame(1200*time.Millisecond, "tc"),
			frame(1900*time.Millisecond, "t"),
			frame(2500*time.Millisecond, "tc"),
		},
	})
	end(1, &stream.Observation{
		Start: at(2 * second), End: at(2 * second), OutputTokens: 3, WholeAnswer: true,
		Frames: []stream.Frame{frame(2*second, "tc")},
	})
	end(1, &stream.Observation{Start: at(0), End: at(2 * second), Cancelled: true,
		Frames: []stream.Frame{frame(second, "tc")}})
	end(1, &stream.Observation{Start: at(0), End: at(2 * second), Err: &stream.Error{},
		Frames: []stream.Frame{frame(second, "tc")}})
	tape.Finish(&spatev1.Totals{})
	want := []*spatev1.WindowShare{
		{Window: 0, Chunks: 1, MicroRequests: 250_000},
		{Window: 1, OutputTokens: 7, Chunks: 2, MicroRequests: 500_000},
		{Window: 2, OutputTokens: 3 + 3, Chunks: 1, MicroRequests: 1_250_000},
	}
	if diff := cmp.Diff(want, tape.snapshots[2].GetShares(), protocmp.Transform()); diff != "" {
		t.Errorf("window 2 (-want +got):\n%s", diff)
	}
	if n := len(tape.snapshots[0].GetShares()) + len(tape.snapshots[1].GetShares()); n != 0 {
		t.Errorf("%d shares before the requests ended", n)
	}
}

// However a request's frames and times lie, all of it is distributed, and nothing before its start.
func TestSharesAddUpToTheRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tape := newTape(1, 1, false)
		from := time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "start"))
		o := &stream.Observation{Start: at(from), OutputTokens: rapid.Uint64Range(1, 1000).Draw(t, "tokens")}
		now := from
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			now += time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "gap"))
			o.Frames = append(o.Frames, stream.NewFrame(at(now), true, true))
		}
		o.TokenFrames = uint64(len(o.Frames))
		o.End = at(now + time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "end")))
		// its windows may already be sealed
		tape.Seal(at(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "sealed"))))
		tape.Shard(0).RecordStart(&Request{}, o.Start)
		tape.Shard(0).RecordEnd(&Request{}, o)
		tape.Finish(&spatev1.Totals{})
		var tokens, chunks, parts uint64
		for _, s := range tape.snapshots {
			last := -1
			for _, share := range s.GetShares() {
				if w := int(share.GetWindow()); w <= last || w > int(s.GetWindow()) ||
					time.Duration(w+1)*Length < from {
					t.Fatalf("window %d behind %d in snapshot %d of a request from %v", w, last, s.GetWindow(), from)
				}
				last = int(share.GetWindow())
				tokens, chunks, parts = tokens+share.GetOutputTokens(), chunks+share.GetChunks(),
					parts+share.GetMicroRequests()
			}
		}
		if tokens != o.OutputTokens || chunks != o.TokenFrames || parts != million {
			t.Fatalf("%d tokens of %d, %d chunks of %d, %d parts", tokens, o.OutputTokens, chunks, o.TokenFrames, parts)
		}
	})
}

// The two ITLs come out right, however our frames and the chunks of vLLM's client are interleaved.
func TestGapsOfBothDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tape := newTape(1, 1, false)
		o := &stream.Observation{Start: at(0), OutputTokens: 2, TokenFrames: 1}
		var now, token, chunk time.Duration
		ours, theirs := map[int64]int{}, map[int64]int{}
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			now += time.Duration(rapid.Int64Range(1000, 2000).Draw(t, "gap"))
			f := stream.NewFrame(at(now), rapid.Bool().Draw(t, "token"), rapid.Bool().Draw(t, "chunk"))
			o.Frames = append(o.Frames, f)
			if f.Token() {
				if token != 0 {
					ours[int64(now-token)]++
				}
				token = now
			}
			if f.Chunk() {
				if chunk != 0 {
					theirs[int64(now-chunk)]++
				}
				chunk = now
			}
		}
		o.End = at(now)
		tape.Shard(0).RecordStart(&Request{}, o.Start)
		tape.Shard(0).RecordEnd(&Request{}, o)
		values := tape.shards[0].open[0].cells[0].values
		count := func(metrics ...spatev1.Metric) map[int64]int {
			counted := map[int64]int{}
			for _, m := range metrics {
				for _, v := range values[m] {
					if m == spatev1.Metric_METRIC_VLLM_ITL_LEFT_OUT {
						counted[v]--
					} else {
						counted[v]++
					}
				}
			}
			for v, n := range counted {
				if n == 0 {
					delete(counted, v)
				}
			}
			return counted
		}
		if diff := cmp.Diff(ours, count(spatev1.Metric_METRIC_ITL)); diff != "" {
			t.Fatalf("ITL (-want +got):\n%s", diff)
		}
		got := count(spatev1.Metric_METRIC_ITL, spatev1.Metric_METRIC_VLLM_ITL_ADDED,
			spatev1.Metric_METRIC_VLLM_ITL_LEFT_OUT)
		if diff := cmp.Diff(theirs, got); diff != "" {
			t.Fatalf("vLLM's ITL (-want +got):\n%s", diff)
		}
	})
}

// The gap between starts is per agent, across endpoints and shards, and ignores warm-up.
func TestGapsBetweenStarts(t *testing.T) {
	tape := newTape(2, 2, false)
	for i, c := range []struct {
		at         time.Duration
		unmeasured bool
	}{{100, true}, {1000, false}, {3000, false}, {4000, true}, {7000, false}} {
		tape.turn(at(c.at))
		tape.Shard(i).RecordStart(&Request{Endpoint: i % 2, Unmeasured: c.unmeasured}, at(c.at))
	}
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	got := map[spatev1.Metric]uint64{}
	for _, s := range tape.snapshots[0].GetSeries() {
		for m, sum := range sumsOf(s) {
			got[m] += sum
		}
	}
	if got[spatev1.Metric_METRIC_START_GAP] != 2000+4000 {
		t.Errorf("gaps of %d ns", got[spatev1.Metric_METRIC_START_GAP])
	}
}

// Lags that come with a token belong to the token's window, however the request ends. Those of unmeasured requests are
// dropped.
func TestLagsOfTokens(t *testing.T) {
	tape := newTape(1, 1, false)
	q := &Request{}
	tape.Shard(0).RecordStart(q, at(0))
	tape.Shard(0).RecordToken(q, at(500*time.Millisecond), 1, 4000, 6000)
	tape.Shard(0).RecordToken(&Request{Unmeasured: true}, at(500*time.Millisecond), 1, 9000)
	tape.Shard(0).
		RecordEnd(q, &stream.Observation{End: at(1500 * time.Millisecond), Cancelled: true, Lags: []int64{8000}})
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	for window, want := range []uint64{2, 1} {
		var got uint64
		for _, d := range tape.snapshots[window].GetSeries()[0].GetDistributions() {
			if d.GetMetric() == spatev1.Metric_METRIC_RECEIVE_LAG {
				h := histogram.New(histogram.Times)
				if err := h.AddProto(d); err != nil {
					t.Fatal(err)
				}
				got = h.Count()
			}
		}
		if got != want {
			t.Errorf("window %d has %d lags, want %d", window, got, want)
		}
	}
	for _, v := range totals.GetValues() {
		if v.GetMetric() == spatev1.Metric_METRIC_RECEIVE_LAG && v.GetCount() != 3 {
			t.Errorf("totals have %d lags, want 3", v.GetCount())
		}
	}
}

func TestWindowsAreSealedAGraceAfterTheirEnd(t *testing.T) {
	tape := newTape(1, 2, false)
	q := &Request{}
	tape.Shard(0).RecordToken(q, at(900*time.Millisecond), 1)
	tape.Seal(at(Length + Grace - 1))
	if len(tape.snapshots) != 0 {
		t.Fatal("sealed before the grace was over")
	}
	tape.Seal(at(3*Length + Grace))
	tape.Shard(1).RecordToken(q, at(100*time.Millisecond), 1) // late: its window has been emitted
	tape.Shard(0).RecordToken(q, at(5*Length), 1)
	tape.Finish(&spatev1.Totals{})

	var got []string
	for _, s := range tape.snapshots {
		n := uint64(0)
		for _, series := range s.GetSeries() {
			n += series.GetCounters().GetFrames()
		}
		got = append(got, fmt.Sprintf("window %d: %d frames, totals %t", s.GetWindow(), n, s.GetTotals() != nil))
	}
	want := []string{
		"window 0: 1 frames, totals false",
		"window 1: 0 frames, totals false",
		"window 2: 0 frames, totals false",
		"window 3: 1 frames, totals false",
		"window 4: 0 frames, totals false",
		"window 5: 1 frames, totals true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshots (-want +got):\n%s", diff)
	}
}

func TestPeakInFlightIsExact(t *testing.T) {
	tape := newTape(1, 1, false)
	enter := func(d time.Duration) { tape.turn(at(d)); tape.Shard(0).RecordStart(&Request{}, at(d)) }
	leave := func(d time.Duration) {
		tape.turn(at(d))
		tape.Shard(0).RecordEnd(&Request{}, &stream.Observation{Start: at(0), End: at(d), Cancelled: true})
	}
	enter(100 * time.Millisecond)
	enter(200 * time.Millisecond)
	leave(300 * time.Millisecond)
	enter(2500 * time.Millisecond) // window 1 saw the request that was left, and window 2 starts with it
	leave(3100 * time.Millisecond) // window 3 starts with two
	leave(3200 * time.Millisecond)
	tape.Finish(&spatev1.Totals{})
	var peaks []uint32
	for _, s := range tape.snapshots {
		peaks = append(peaks, s.GetPeakInFlight())
	}
	if diff := cmp.Diff([]uint32{2, 1, 2, 2}, peaks); diff != "" {
		t.Errorf("peaks (-want +got):\n%s", diff)
	}
}

func TestManyRowsBecomeSeveralSnapshotsOfTheWindow(t *testing.T) {
	tape := newTape(1, 1, true)
	const rows, gaps = 40, 50_000
	for i := range rows {
		o := &stream.Observation{Start: at(1), End: at(2), Cancelled: true, Frames: make([]stream.Frame, gaps)}
		for j := range o.Frames {
			o.Frames[j] = stream.NewFrame(at(time.Duration(j)<<20), true, true)
		}
		tape.Shard(0).RecordStart(&Request{Index: uint64(i)}, o.Start)
		tape.Shard(0).RecordEnd(&Request{Index: uint64(rows - 1 - i)}, o)
	}
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	if len(tape.snapshots) < 2 || totals.GetSnapshots() != uint64(len(tape.snapshots)) {
		t.Fatalf("%d snapshots, totals say %d", len(tape.snapshots), totals.GetSnapshots())
	}
	next := uint64(0)
	for i, s := range tape.snapshots {
		if size := proto.Size(s); size > 2*rowBytes {
			t.Errorf("snapshot %d has %d bytes", i, size)
		}
		if first, last := i == 0, i == len(tape.snapshots)-1; (s.GetSeries() != nil) != first ||
			(s.GetTotals() != nil) != last {
			t.Errorf("snapshot %d: %d series, totals %v", i, len(s.GetSeries()), s.GetTotals() != nil)
		}
		for _, row := range s.GetRecords() {
			if row.GetIndex() != next {
				t.Fatalf("row %d where %d was due", row.GetIndex(), next)
			}
			next++
		}
	}
	if next != rows {
		t.Errorf("%d rows", next)
	}
}

// merged is the sum of snapshots, as the coordinator computes it.
type merged struct {
	counters measure.Counts
	values   map[spatev1.Metric]uint64
	rows     int
}

func mergeAll(t interface{ Fatal(...any) }, snapshots []*spatev1.Snapshot) merged {
	m := merged{values: map[spatev1.Metric]uint64{}}
	for _, s := range snapshots {
		m.rows += len(s.GetRecords())
		for _, series := range s.GetSeries() {
			c := measure.CountsOf(series.GetCounters())
			m.counters.Add(&c)
			for _, d := range series.GetDistributions() {
				h, err := histogram.Check(d)
				if err != nil {
					t.Fatal(err)
				}
				m.values[d.GetMetric()] += h.Count()
			}
		}
	}
	return m
}

// check compares the merged snapshots with the totals.
func (m merged) check(t interface {
	Errorf(string, ...any)
}, totals *spatev1.Totals) {
	if diff := cmp.Diff(m.counters.Proto(), totals.GetCounters(), protocmp.Transform()); diff != "" {
		t.Errorf("counters (-merged +totals):\n%s", diff)
	}
	values := map[spatev1.Metric]uint64{}
	for _, v := range totals.GetValues() {
		values[v.GetMetric()] = v.GetCount()
	}
	if diff := cmp.Diff(m.values, values); diff != "" {
		t.Errorf("values (-merged +totals):\n%s", diff)
	}
}

// Whatever happens in whatever order, each event is in exactly one snapshot: that of its window, or of the oldest
// window open at the time.
func TestEachEventIsInOneWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		endpoints := rapid.IntRange(1, 3).Draw(t, "endpoints")
		tape := newTape(endpoints, rapid.IntRange(1, 3).Draw(t, "shards"), true)
		now, events := start, 0
		want := map[uint32]uint64{} // token frames by window: the naive oracle
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(800*time.Millisecond)).Draw(t, "pause")))
			tape.turn(now)
			q := &Request{Endpoint: rapid.IntRange(0, endpoints-1).Draw(t, "endpoint"), Scheduled: now}
			shard := tape.Shard(rapid.IntRange(0, 9).Draw(t, "shard"))
			when := now.Add(-time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "late")))
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				tape.Seal(now)
			case 1:
				shard.RecordToken(q, when, 1)
				want[max(uint32(max(0, when-start)/clock.Instant(time.Second)), uint32(len(tape.snapshots)))]++
			case 2:
				shard.RecordStart(q, when)
				shard.RecordEnd(q, &stream.Observation{Start: when, FirstToken: when, LastToken: now, End: now,
					OutputTokens: 2, TokenFrames: 1})
				events++
			}
		}
		totals := &spatev1.Totals{}
		tape.Finish(totals)
		m := mergeAll(t, tape.snapshots)
		m.check(t, totals)
		if m.rows != events || int(m.counters[measure.Completed]) != events {
			t.Fatalf("%d rows, %d completed of %d requests", m.rows, m.counters[measure.Completed], events)
		}
		for i, s := range tape.snapshots {
			if frames := countFrames(s); s.GetWindow() != uint32(i) || frames != want[uint32(i)] {
				t.Fatalf("snapshot %d: window %d with %d token frames, not %d", i, s.GetWindow(), frames,
					want[uint32(i)])
			}
		}
	})
}

func countFrames(s *spatev1.Snapshot) (n uint64) {
	for _, series := range s.GetSeries() {
		n += series.GetCounters().GetFrames()
	}
	return n
}

// Goroutines record while another seals on a clock that runs a thousand times too fast.
func TestConcurrentRecordingLosesNothing(t *testing.T) {
	const goroutines, requests, frames = 8, 300, 5
	tape := newTape(2, 3, true)
	var recording sync.WaitGroup
	for g := range goroutines {
		recording.Go(func() {
			shard := tape.Shard(g)
			for i := range requests {
				begin := clock.Instant(tape.now.Add(int64(time.Millisecond)))
				q := &Request{Index: uint64(i), Endpoint: i % 2, Scheduled: begin, Unmeasured: i%10 == 0}
				shard.RecordStart(q, begin)
				for range frames {
					shard.RecordToken(q, clock.Instant(tape.now.Add(int64(time.Millisecond))), 1)
				}
				end := clock.Instant(tape.now.Load())
				shard.RecordEnd(q, &stream.Observation{Start: begin, FirstToken: end, LastToken: end, End: end,
					OutputTokens: frames})
			}
		})
	}
	done := make(chan struct{})
	go func() { recording.Wait(); close(done) }()
	for sealing := true; sealing; {
		select {
		case <-done:
			sealing = false
		default:
			tape.Seal(clock.Instant(tape.now.Load()))
		}
	}
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	m := mergeAll(t, tape.snapshots)
	m.check(t, totals)
	const measured = goroutines * requests * 9 / 10
	if m.counters[measure.Completed] != measured || m.counters[measure.Frames] != measured*frames ||
		m.rows != goroutines*requests {
		t.Errorf("%d completed, %d frames, %d rows", m.counters[measure.Completed], m.counters[measure.Frames], m.rows)
	}
	if tape.InFlight() != 0 {
		t.Errorf("%d in flight", tape.InFlight())
	}
}

// hundred returns the frames of an answer of 100 tokens.
func hundred() (frames []stream.Frame) {
	for i := range 100 {
		frames = append(frames, stream.NewFrame(at(time.Duration(i)*time.Millisecond), true, true))
	}
	return frames
}

func BenchmarkToken(b *testing.B) {
	tape := newTape(4, 16, false)
	var workers atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		shard, q := tape.Shard(int(workers.Add(1))), &Request{Endpoint: 1}
		for pb.Next() {
			shard.RecordToken(q, start, 1)
		}
	})
}

// BenchmarkRequest records requests of 100 tokens, and seals windows of 1,000 requests.
func BenchmarkRequest(b *testing.B) {
	tape := newTape(1, 1, false)
	q, o := fullRequest()
	q.Endpoint = 0
	o.Frames, o.Lags = hundred(), make([]int64, 100)
	shard := tape.Shard(0)
	b.ReportAllocs()
	for i := range b.N {
		shard.RecordStart(q, o.Start)
		shard.RecordEnd(q, o)
		if i%1000 == 999 {
			tape.reuseAll()
		}
	}
}

// reuseAll seals without merging, so that only recording is measured.
func (t *tape) reuseAll() {
	for _, s := range t.shards {
		if p := s.seal(); p != nil {
			s.reuse(p)
		}
	}
	for _, s := range t.shards {
		s.oldest = 0
	}
}

// BenchmarkSeal merges a window of 1,000 requests of 100 tokens.
func BenchmarkSeal(b *testing.B) {
	tape := newTape(4, 2, false)
	tape.config.Emit = func(*spatev1.Snapshot) {}
	q, o := fullRequest()
	o.Frames, o.Lags = hundred(), make([]int64, 100)
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		for i := range 1000 {
			q.Endpoint = i % 4
			tape.Shard(i).RecordStart(q, o.Start)
			tape.Shard(i).RecordEnd(q, o)
		}
		b.StartTimer()
		tape.seal(nil)
	}
}

func TestCanariesAreCountedByEndpoint(t *testing.T) {
	tape := newTape(2, 1, true)
	for _, a := range []ready.Answer{
		{Task: true, Right: true}, {Task: true, Differs: true, Alike: 3}, {}, {Failed: true, Differs: true},
	} {
		a.End = at(1000)
		tape.Shard(0).RecordCanary(0, 1, a)
	}
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	want := &spatev1.Counters{Canaries: 3, CanariesDiffering: 1, CanariesFailed: 1, CanaryTasks: 2, CanaryTasksRight: 1,
		CanaryWordsAlike: 3}
	series := tape.snapshots[0].GetSeries()
	if len(series) != 1 || series[0].GetEndpoint() != 1 || !proto.Equal(series[0].GetCounters(), want) ||
		!proto.Equal(totals.GetCounters(), want) || len(tape.snapshots[0].GetRecords()) != 0 {
		t.Errorf("snapshot %v, totals %v", tape.snapshots[0], totals)
	}
}

func TestOutcomesAreCountedAndInRows(t *testing.T) {
	tape := newTape(2, 1, true)
	outcomes := []ready.Outcome{
		{Tools: true, Calls: 3, ValidCalls: 2}, {Tools: true}, {Checked: true, ValidAnswer: true}, {Checked: true}, {},
	}
	for _, outcome := range outcomes {
		q, o := fullRequest()
		q.Outcome = outcome
		tape.Shard(0).RecordStart(q, o.Start)
		tape.Shard(0).RecordEnd(q, o)
	}
	tape.Finish(&spatev1.Totals{})
	c := tape.snapshots[0].GetSeries()[0].GetCounters()
	if c.GetWithTools() != 2 || c.GetWithToolCalls() != 1 || c.GetToolCalls() != 3 || c.GetValidToolCalls() != 2 ||
		c.GetCheckedAnswers() != 2 || c.GetValidAnswers() != 1 {
		t.Errorf("counters %v", c)
	}
	rows := tape.snapshots[0].GetRecords()
	if rows[0].GetToolCalls() != 3 || rows[0].GetValidToolCalls() != 2 || rows[0].ValidAnswer != nil ||
		rows[1].ToolCalls == nil || rows[2].ToolCalls != nil || !rows[2].GetValidAnswer() ||
		rows[3].ValidAnswer == nil || rows[4].ToolCalls != nil || rows[4].ValidAnswer != nil {
		t.Errorf("rows %v", rows)
	}
}

// TestSessionsAndTurns: completed requests are also measured by their turn, and sessions as a whole, if the workload
// plays sessions.
func TestSessionsAndTurns(t *testing.T) {
	tape := newTape(2, 1, false)
	tape.config.Sessions = true
	for _, turn := range []int{0, 2, 2, 17, 31} {
		q, o := fullRequest()
		q.Turn = turn
		tape.Shard(0).RecordStart(q, o.Start)
		tape.Shard(0).RecordEnd(q, o)
	}
	q, o := fullRequest()
	o.Cancelled = true
	tape.Shard(0).RecordStart(q, o.Start)
	tape.Shard(0).RecordEnd(q, o)
	tape.Shard(0).RecordSession(Session{Start: at(1000), End: at(9000), Critical: 5000, Completed: true})
	tape.Shard(0).RecordSession(Session{Endpoint: 1, Start: at(1000), End: at(9000)})
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	s := tape.snapshots[0]
	sums := sumsOf(s.GetSeries()[0])
	if sums[spatev1.Metric_METRIC_TASK] != 8000 || sums[spatev1.Metric_METRIC_TASK_REQUESTS] != 5000 ||
		sums[spatev1.Metric_METRIC_TASK_DELAYS] != 3000 || totals.GetCounters().GetCompletedSessions() != 1 ||
		totals.GetCounters().GetBrokenSessions() != 1 {
		t.Errorf("%v, totals %v", sums, totals)
	}
	completed := map[uint32]uint64{0: 1, 2: 2, 16: 2} // 16 is the class of turns 16 to 31
	if len(s.GetTurns()) != len(completed) {
		t.Errorf("turns %v", s.GetTurns())
	}
	for _, turn := range s.GetTurns() {
		c, n := turn.GetCounters(), completed[turn.GetEndpoint()]
		sums := sumsOf(turn)
		if c.GetCompleted() != n || c.GetInputTokens() != 10*n || c.GetCachedTokens() != 6*n ||
			c.GetWithCachedTokens() != n || c.GetSharedTokens() != 8*n || c.GetWithoutUsage() != 0 ||
			sums[spatev1.Metric_METRIC_TTFT] != 3000*n || sums[spatev1.Metric_METRIC_E2E] != 9000*n {
			t.Errorf("turn %d: %v %v", turn.GetEndpoint(), c, sums)
		}
	}
}

// Answers are counted by their ending if they completed. An aborted one is an error, and no latency has it.
func TestEndings(t *testing.T) {
	tape := newTape(2, 1, true)
	for ending := range api.EndingCount {
		q, o := fullRequest()
		o.Ending, o.FinishReason = ending, "reason"
		if ending == api.EndingAborted {
			o.Err = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_ABORTED, Message: "m"}
		}
		tape.Shard(0).RecordStart(q, o.Start)
		tape.Shard(0).RecordEnd(q, o)
	}
	tape.Finish(&spatev1.Totals{})
	s := tape.snapshots[0].GetSeries()[0]
	c := s.GetCounters()
	if c.GetCompleted() != 6 || c.GetEndedStop() != 1 || c.GetEndedLength() != 1 || c.GetEndedToolCalls() != 1 ||
		c.GetEndedFiltered() != 1 || c.GetEndedOther() != 1 {
		t.Errorf("counters %v", c)
	}
	if e := s.GetErrors(); len(e) != 1 || e[0].GetCount() != 1 ||
		e[0].GetClass() != spatev1.ErrorClass_ERROR_CLASS_ABORTED {
		t.Errorf("errors %v", e)
	}
	if row := tape.snapshots[0].GetRecords()[0]; row.GetFinishReason() != "reason" {
		t.Errorf("row %v", row)
	}
}

// Models that answers named are counted over shards, with their times.
func TestModelsAreCounted(t *testing.T) {
	tape := newTape(2, 2, true)
	for i, name := range []string{"a", "b", "a", "", "failed"} {
		q, o := fullRequest()
		o.Model = name
		if name == "failed" {
			o.Err = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM}
		}
		tape.Shard(i).RecordStart(q, o.Start)
		tape.Shard(i).RecordEnd(q, o)
	}
	tape.Finish(&spatev1.Totals{})
	_, o := fullRequest()
	e2e, ttft := uint64(o.LastToken.Sub(o.Start).Microseconds()), uint64(o.FirstToken.Sub(o.Start).Microseconds())
	got := tape.snapshots[0].GetSeries()[0].GetModels()
	if len(got) > 0 && got[0].GetModel() == "b" {
		got[0], got[1] = got[1], got[0]
	}
	if len(got) != 2 || got[0].GetRequests() != 2 || got[0].GetStreamed() != 2 || got[0].GetE2EUs() != 2*e2e ||
		got[0].GetTtftUs() != 2*ttft || got[1].GetModel() != "b" || got[1].GetRequests() != 1 {
		t.Errorf("%v", got)
	}
	if rows := tape.snapshots[0].GetRecords(); rows[0].GetAnswerModel() != "a" {
		t.Errorf("row %v", rows[0])
	}
}

// What connections did is counted however requests ended.
func TestConnectionsAreCounted(t *testing.T) {
	tape := newTape(2, 1, false)
	for i := range 3 {
		q, o := fullRequest()
		o.Reconnected, o.LateEnd, o.Cancelled = i == 0, i > 0, i == 1
		if i == 2 {
			o.PreviousLate = time.Second
		}
		tape.Shard(0).RecordStart(q, o.Start)
		tape.Shard(0).RecordEnd(q, o)
	}
	tape.Finish(&spatev1.Totals{})
	c := tape.snapshots[0].GetSeries()[0].GetCounters()
	late := sumsOf(tape.snapshots[0].GetSeries()[0])[spatev1.Metric_METRIC_LATE_END]
	if c.GetReconnected() != 1 || c.GetLateEnds() != 2 || late != uint64(time.Second) {
		t.Errorf("%v, late end %d", c, late)
	}
}
