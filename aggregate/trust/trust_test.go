package trust

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sound returns the evidence of a flawless stage, for which every check can be made.
func sound() Evidence {
	return Evidence{
		NeverSent: new(uint64(1)), AfterFailure: new(uint64(1)), ExactOutput: new(true),
		Counts: measure.Counts{
			measure.Started: 1000, measure.Completed: 1000, measure.ISLCompared: 1000,
			measure.Frames: 100_000, measure.OutputTokens: 100_000, measure.TokenFrames: 100_000,
			measure.TextBytes: 420_000, measure.HeadTokens: 1000, measure.WithHeadTokens: 1000,
		},
		Summaries: [measure.Count]*histogram.Summary{
			metricSendDelay:      {Count: 1000, Mean: 0.2, P50: 0.1, P99: 1},
			metricReceiveLag:     {Count: 100_000, Mean: 0.1, P50: 0.1, P99: 2},
			metricTTFT:           {Count: 1000, Mean: 50, P50: 50, P95: 60, P99: 80},
			metricTTFTScheduled:  {Count: 1000, Mean: 50, P50: 50, P95: 61, P99: 84},
			metricTPOT:           {Count: 1000, Mean: 10, P50: 10, P99: 12},
			metricITL:            {Count: 99_000, Mean: 10, P50: 10, P99: 20},
			metricE2E:            {Count: 1000, Mean: 50 + 99*10, P50: 1040, P99: 1100},
			metricStartGap:       {Count: 999, Mean: 5, Std: 6, P50: 4, P99: 20},
			metricTokensPerFrame: {Count: 1000, Mean: 1, P50: 1, P99: 1},
		},
		Values: values(), Open: &Open{Asked: 20, Achieved: 20.5, Shape: 1}, PeakTokens: new(9_500.0),
		SharedShare: new(0.3), CachedShare: new(0.25),
		Ended:  true,
		Closed: &Closed{Concurrency: 100}, PeakConcurrency: new(uint64(100)),
		Endpoints: []uint64{500, 500},
		Canaries:  []Canaries{{Endpoint: "a", Asked: 500, QuietAsked: 500}, {Endpoint: "b", Asked: 500, QuietAsked: 500}},
		Starts:    []float64{0.5, 1.5},
		Models:    [][]AnswerModel{{{"m", 1000, nil, 1040}}, {{"n", 10, nil, 50}}},
	}
}

// values returns 1,000 latencies of a request, and the gaps of 100 tokens of each: of 1,000 gaps, 15 are twice as long.
func values() (all [measure.Count]*histogram.Histogram) {
	for metric, ns := range map[spatev1.Metric]int64{
		metricTTFT: 50e6, metricTPOT: 10e6, metricE2E: 1040e6, metricITL: 10e6,
	} {
		h := histogram.New(histogram.LayoutOf(metric))
		if all[metric] = h; metric == metricITL {
			h.RecordN(ns, 97_515)
			h.RecordN(2*ns, 1485)
			continue
		}
		for i := range int64(1000) {
			h.Record(ns + i*ns/2000)
		}
	}
	return all
}

// Late reads do not blur times of packets.
func TestTimesOfPackets(t *testing.T) {
	e := sound()
	e.Counts[measure.PacketFrames] = 99_900
	e.Summaries[metricReceiveLag].P99 = 2990
	got := Judge(e)
	if got.Verdict != Valid {
		t.Errorf("%s: %q", got.Verdict, got.Reasons())
	}
	if !slices.ContainsFunc(got.Checks, func(c Check) bool {
		return c.Name == "frame_times" && c.Words == "99.9 % of the frames have the times of their packets"
	}) {
		t.Errorf("not said: %+v", got.Checks)
	}
}

// Frames that share a time matter as far as they move a number: of ITL, whose p99 lies 0.5 % of the gaps within the
// long ones, up to that share; of TTFT and TPOT, only the first frames of answers.
func TestFrameTimes(t *testing.T) {
	for name, c := range map[string]struct {
		shared, reads, first, unstamped, last uint64
		want                                  Verdict
		touches, words, note                  string
	}{
		"2 of 1,000 frames in pairs": {shared: 200, reads: 200, want: Valid,
			words: "0.2 % of the frames share the time of a later one, because they were read together"},
		"just enough to move p99": {shared: 500, reads: 500, want: Valid, touches: "itl_ms.p99",
			words: "; off by at most: p99 of ITL 9.998 ms", note: "0.5 % of the frames share"},
		"more than the long gaps":        {shared: 800, reads: 800, want: Suspect, touches: "itl_ms.p99"},
		"a first frame of 1,000":         {shared: 1, reads: 1, first: 1, want: Valid},
		"many first frames":              {shared: 60, reads: 60, first: 60, want: Suspect, touches: "ttft_ms.mean"},
		"no stamps":                      {unstamped: 100_000, first: 1000, last: 1000, want: Suspect, touches: "e2e_ms.p50", words: "100 % of the frames have the program's time"},
		"no stamps but those that count": {unstamped: 100, want: Valid},
	} {
		e := sound()
		e.Counts[measure.SharedFrames], e.Counts[measure.CoalescedReads] = c.shared, c.reads
		e.Counts[measure.UnstampedFrames], e.Counts[measure.LateFirstFrames], e.Counts[measure.LateLastFrames] =
			c.unstamped, c.first, c.last
		got := Judge(e)
		i := slices.IndexFunc(got.Checks, func(k Check) bool { return k.Name == "frame_times" })
		k := got.Checks[i]
		if got.Verdict != c.want || k.Verdict != c.want || !strings.Contains(k.Words, c.words) ||
			(len(k.Touches) == 0) != (c.touches == "") || c.touches != "" && (!slices.Contains(k.Touches, c.touches) || !got.Doubts(c.touches)) {
			t.Errorf("%s: %s %+v, want %s %q %s", name, got.Verdict, k, c.want, c.words, c.touches)
		}
		if (len(got.Notes) > 0) != (c.note != "") || c.note != "" && !strings.Contains(got.Notes[0], c.note) {
			t.Errorf("%s: notes %q", name, got.Notes)
		}
	}
}

// Wilson's interval, against Brown, Cai and DasGupta, Interval Estimation for a Binomial Proportion (2001).
func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		part, whole uint64
		want        float64
	}{{0, 10, 0}, {1, 10, 0.0179}, {5, 10, 0.2366}, {10, 10, 0.7225}, {20, 1000, 0.0130}, {12, 10, 0.7225}} {
		if got := atLeast(c.part, c.whole); math.Abs(got-c.want) > 0.0001 {
			t.Errorf("%d of %d: at least %.4f, want %.4f", c.part, c.whole, got, c.want)
		}
	}
}

func TestASoundStageIsValidAndEveryCheckIsMade(t *testing.T) {
	got := Judge(sound())
	if got.Verdict != Valid {
		t.Errorf("%s: %q", got.Verdict, got.Reasons())
	}
	if len(got.Checks) != len(checks) {
		t.Errorf("%d of %d checks were made", len(got.Checks), len(checks))
	}
}

// flaw is something wrong with a sound stage, and what is said about it.
type flaw struct {
	change func(*Evidence)
	check  string
	want   Verdict
	words  string
}

// testFlaws checks that each flaw is found by its check, and gives the stage its verdict.
func testFlaws(t *testing.T, flaws map[string]flaw) {
	t.Helper()
	for name, c := range flaws {
		t.Run(name, func(t *testing.T) {
			e := sound()
			c.change(&e)
			got := Judge(e)
			i := slices.IndexFunc(got.Checks, func(k Check) bool { return k.Name == c.check })
			if i < 0 {
				t.Fatalf("the check was not made: %+v", got.Checks)
			}
			if k := got.Checks[i]; k.Verdict != c.want || !strings.Contains(k.Words, c.words) {
				t.Errorf("%s %q, want %s %q", k.Verdict, k.Words, c.want, c.words)
			}
			if got.Verdict != c.want || len(got.Reasons()) == 0 {
				t.Errorf("the stage is %s because %q, want %s", got.Verdict, got.Reasons(), c.want)
			}
			for _, k := range got.Checks {
				if (k.Remedy == nil) != (k.Verdict == Valid) {
					t.Errorf("%s is %s, remedy %v", k.Name, k.Verdict, k.Remedy)
				}
			}
		})
	}
}

func TestMissingAndFailedRequestsAreFlaws(t *testing.T) {
	testFlaws(t, map[string]flaw{
		"nothing completed": {func(e *Evidence) { e.Counts[measure.Completed] = 0 }, "measured", Invalid,
			"no request completed"},
		"all failed": {func(e *Evidence) {
			e.Counts[measure.Completed], e.Counts[measure.Failed], e.Errors = 0, 40, map[string]uint64{"http_500": 40}
		}, "measured", Invalid, "the server answered 500 to all 40 requests"},
		"an agent was lost": {func(e *Evidence) { e.Missing = []string{"agent b lost", "no totals"} },
			"completeness", Suspect, "agent b lost; no totals"},
		"2 % failed": {func(e *Evidence) { e.Counts[measure.Completed], e.Counts[measure.Failed] = 980, 20 }, "errors",
			Suspect, "20 of 1000 requests failed"},
		"GPUStack's 486 of 1000": {
			func(e *Evidence) { e.Counts[measure.Completed], e.Counts[measure.Failed] = 514, 486 },
			"errors",
			Invalid,
			"486 of 1000",
		},
		"never sent": {func(e *Evidence) { e.NeverSent = new(uint64(11)) }, "never_sent", Suspect,
			"10 requests were due and never sent"},
		"half was never sent": {func(e *Evidence) { e.NeverSent = new(uint64(1000)) }, "never_sent",
			Invalid, ""},
		"sessions broke off": {func(e *Evidence) { e.NeverSent, e.AfterFailure = new(uint64(20)), new(uint64(20)) },
			"broken_sessions", Suspect, "20 requests were not sent because a request of their session failed"},
	})
}

// Requests that waited for one that failed are no fault of the agents.
func TestAfterFailureIsNotNeverSent(t *testing.T) {
	e := sound()
	e.NeverSent, e.AfterFailure = new(uint64(200)), new(uint64(199))
	judged := Judge(e)
	if why := judged.Unmeasured(); judged.Verdict != Invalid || why != "" {
		t.Errorf("%s, unmeasured: %q", judged.Verdict, why)
	}
	e.AfterFailure = new(uint64(0))
	if why := Judge(e).Unmeasured(); why != "200 requests were due and never sent" {
		t.Errorf("unmeasured: %q", why)
	}
}

func TestALateClientIsAFlaw(t *testing.T) {
	open := func(change func(*Evidence)) func(*Evidence) {
		return func(e *Evidence) {
			e.Closed = nil
			change(e)
		}
	}
	testFlaws(t, map[string]flaw{
		"idle slots": {func(e *Evidence) { e.Summaries[metricSendDelay].Mean = 25 }, "send_delay", Suspect,
			"requests started 25.00 ms after their slot was free, on average: the slots were idle 2.4 % of the time"},
		"slots that hear late": {func(e *Evidence) { e.Summaries[metricReceiveLag].Mean = 150 }, "send_delay", Invalid, "12.6 %"},
		"slots that are idle as long as short requests take": {func(e *Evidence) {
			e.Summaries[metricSendDelay].Mean, e.Summaries[metricE2E].Mean = 1.1, 2.3
		}, "send_delay", Invalid, "the slots were idle 34.3 % of the time"},
		"late sends": {open(func(e *Evidence) { e.Summaries[metricTTFTScheduled].P99 = 86 }), "send_delay", Suspect,
			"p99 of TTFT is 80.00 ms from the start, 86.00 ms from when it was due"},
		"many late of few": {open(func(e *Evidence) {
			e.Summaries[metricTTFT].Count, e.Summaries[metricTTFTScheduled].P50 = 40, 57
			e.Summaries[metricE2E] = &histogram.Summary{Count: 39}
		}), "send_delay", Suspect, "p50 of TTFT"},
		"very late sends": {open(func(e *Evidence) { e.Summaries[metricTTFTScheduled].P99 = 106 }), "send_delay", Invalid, ""},
	})
}

// Tokens that did not arrive one by one, or not as text.
func TestAnswersThatAreNotStreamedAreFlaws(t *testing.T) {
	testFlaws(t, map[string]flaw{
		"JSON where a stream was asked for": {
			func(e *Evidence) { e.Counts[measure.WholeAnswers] = 1000 },
			"streaming",
			Invalid,
			"1000 of 1000 answers came as one body: the server does not stream",
		},
		"a stream where one body was asked for": {
			func(e *Evidence) { e.Whole, e.Counts[measure.StreamedAnswers] = true, 1000 },
			"streaming",
			Suspect,
			"1000 of 1000 answers were streams although the target asks for answers in one piece",
		},
		"200 tokens in one frame": {func(e *Evidence) {
			e.Counts[measure.InOneFrame], e.Counts[measure.OutputTokens] = 1000, 200_000
		}, "streaming", Invalid, "came in 1 frame (200 tokens on average): the server does not stream token by token"},
		"all tokens in one write": {func(e *Evidence) { e.Counts[measure.WrittenAtOnce] = 1000 }, "streaming", Invalid,
			"came in one write"},
		"a few answers at once": {
			func(e *Evidence) { e.Counts[measure.WrittenAtOnce] = 20 },
			"streaming",
			Suspect,
			"20 of 1000",
		},
		"two frames of 200 tokens": {func(e *Evidence) {
			e.Counts[measure.OutputTokens], e.Counts[measure.TokenFrames] = 200_000, 2000
			e.Summaries[metricTokensPerFrame].P50 = 100
		}, "tokens_per_frame", Invalid,
			"200 tokens by usage came in 2.0 frames: the server does not stream token by token, or hides reasoning; " +
				"TPOT 10.00 ms where frames are 10.00 ms apart"},
		"an interval of 16 tokens": {
			func(e *Evidence) { e.Summaries[metricTokensPerFrame].P50 = 16 },
			"tokens_per_frame",
			Suspect,
			"",
		},
		"usage of half the tokens": {func(e *Evidence) { e.Counts[measure.OutputTokens] /= 2 }, "frames_per_token", Suspect,
			"2.00 frames with a token for each token by usage"},
		"reasoning that is not streamed": {
			func(e *Evidence) {
				e.Counts[measure.HiddenReasoningTokens], e.Counts[measure.TokenFrames] = 50_000, 50_000
			},
			"hidden_tokens",
			Invalid,
			"50.0 % of the output tokens were reasoning that was not streamed",
		},
		"reasoning beside the output tokens": {
			func(e *Evidence) { e.Counts[measure.HiddenReasoningTokens] = 400_000 },
			"hidden_tokens",
			Invalid,
			"80.0 % of the output tokens were reasoning that was not streamed",
		},
		"tokens before the first frame": {func(e *Evidence) {
			e.Counts[measure.OutputTokens], e.Counts[measure.HeadTokens] = 120_000,
				21_000
		}, "hidden_tokens", Invalid, "16.7 % of the output tokens came before the first frame"},
		"too little text": {func(e *Evidence) { e.Counts[measure.TextBytes] = 100_000 }, "text", Suspect,
			"1.0 bytes of text per token"},
		"frames that cannot be decided": {func(e *Evidence) { e.Counts[measure.Undecided] = 30 }, "undecided",
			Suspect, "3.0 %"},
	})
}

func TestTimesThatContradictEachOtherAreFlaws(t *testing.T) {
	testFlaws(t, map[string]flaw{
		"TPOT of nothing": {func(e *Evidence) { e.Summaries[metricTPOT].P50 = 0 }, "bunching", Invalid,
			"the median TPOT is 0"},
		"a proxy that buffers": {func(e *Evidence) { e.Summaries[metricITL].P50 = 0.05 }, "bunching", Suspect,
			"0.050 ms, the median time per token 10.000 ms"},
		"a gap was not counted": {func(e *Evidence) { e.Summaries[metricITL].Count-- }, "identity", Invalid, "differ"},
		"a peak beyond the wire": {func(e *Evidence) {
			e.PeakTokens, e.Summaries[metricTPOT].Mean, e.PeakConcurrency = new(20_132_659.2), 15.12, new(uint64(512))
		}, "peak", Suspect,
			"the peak is 20132659 tokens/s, but 512 streams at 15.12 ms per token deliver 33862"},
	})
}

func TestALoadThatIsNotThePlansIsAFlaw(t *testing.T) {
	testFlaws(t, map[string]flaw{
		"another rate": {func(e *Evidence) { e.Open.Achieved = 23.3 }, "rate", Suspect,
			"sent 23.3 requests/s, planned 20"},
		"another rate by no chance": {func(e *Evidence) { e.Open = &Open{Asked: 20, Achieved: 20.6} }, "rate",
			Suspect, ""},
		"half of the rate": {func(e *Evidence) { e.Open = &Open{Asked: 20, Achieved: 10} }, "rate",
			Invalid, ""},
		"too few in flight": {func(e *Evidence) { e.PeakConcurrency = new(uint64(90)) }, "concurrency", Suspect,
			"at most 90"},
		"an idle endpoint": {func(e *Evidence) { e.Endpoints = []uint64{1000, 0} }, "endpoints",
			Suspect, "1 of 2"},
		"agents that began apart": {func(e *Evidence) { e.Starts[1] = 150 }, "starts", Suspect, "150.0 ms"},
	})
}

func TestOtherTokensThanRequestedAreFlaws(t *testing.T) {
	testFlaws(t, map[string]flaw{
		"other prompts": {func(e *Evidence) { e.Counts[measure.ISLMissed], e.Counts[measure.ISLFar] = 30, 20 }, "isl",
			Suspect, "2.0 % of the prompts were off by more than 1 % of the requested length, 3.0 % by a token or more"},
		"other outputs": {func(e *Evidence) { e.Counts[measure.OSLMissed] = 20 }, "osl", Suspect, "2.0 %"},
		"usage of some": {func(e *Evidence) { e.Counts[measure.WithoutUsage] = 1 }, "usage", Suspect, "1 of 1000"},
		"frames of several tokens": {func(e *Evidence) {
			e.Counts[measure.WithoutUsage], e.Counts[measure.OSLMissed], e.Counts[measure.EndedLength] = 1000, 1000, 900
			e.ExactOutput = new(false)
		}, "usage", Suspect, "at least 900 answers that had all their tokens had another number of frames"},
		"a fallback": {func(e *Evidence) {
			e.Models = [][]AnswerModel{{{"m", 10, nil, 50}}, {{"a", 20, nil, 281}, {"b", 20, nil, 70}}}
		}, "models", Suspect, "of 40 answers, 20 name a (mean E2E 281 ms), 20 name b (mean E2E 70 ms)"},
		"a cache that knows us": {func(e *Evidence) { e.CachedShare = new(0.9) }, "prefix_cache",
			Suspect, "90.0 %"},
	})
}

// A healthy stage may show a hiccup, frames of eight tokens, prompts off by a token, or a rate off by chance.
func TestNoFalseAlarms(t *testing.T) {
	for name, change := range map[string]func(*Evidence){
		"a chat template in the cache": func(e *Evidence) {
			e.Counts[measure.InputTokens], e.TemplateTokens = 200_000, 22
			e.SharedShare, e.CachedShare = new(0.0), new(0.08)
		},
		"a stream interval of 8": func(e *Evidence) {
			e.Summaries[metricTokensPerFrame].P50, e.Counts[measure.TokenFrames] = 7.7, 12_987
		},
		"prompts off by a token":    func(e *Evidence) { e.Counts[measure.ISLMissed] = 1000 },
		"a Poisson sample of 1,000": func(e *Evidence) { e.Open.Achieved = 22 },
		"speculative decoding": func(e *Evidence) {
			e.Counts[measure.HeadTokens], e.Counts[measure.TokenFrames],
				e.Summaries[metricTokensPerFrame].P50 = 3000, 33_333, 3
		},
		"a peak in bursts of chance": func(e *Evidence) { e.PeakTokens = new(20_000.0) },
	} {
		e := sound()
		change(&e)
		if got := Judge(e); got.Verdict != Valid {
			t.Errorf("%s: %s, %q", name, got.Verdict, got.Reasons())
		}
	}
}

// Requests of 2 ms need a client that is idle for a tenth of a millisecond between them, which costs a few percent.
func TestATurnaroundBetweenShortRequestsIsANote(t *testing.T) {
	e := sound()
	e.Summaries[metricSendDelay].Mean, e.Summaries[metricReceiveLag].Mean = 0.13, 0.03
	e.Summaries[metricE2E].Mean = 2.3
	got := Judge(e)
	c := got.Checks[slices.IndexFunc(got.Checks, func(c Check) bool { return c.Name == "send_delay" })]
	if c.Verdict != Valid || !slices.Contains(got.Notes, c.Words) || !got.Doubts(requestRate) || !strings.Contains(c.Words, "6.5 %") {
		t.Errorf("%+v, notes %q", c, got.Notes)
	}
}

// A closed loop whose ramp-up and drain lower its throughput gets a note, unless failures may have lowered it.
func TestRampUpAndDrainAreTold(t *testing.T) {
	for _, c := range []struct {
		lowered float64
		failed  uint64
		notes   int
	}{{0.04, 0, 0}, {0.162, 0, 1}, {0.162, 1, 0}} {
		e := sound()
		e.Closed.Lowered, e.Counts[measure.Failed] = c.lowered, c.failed
		got := Judge(e)
		if len(got.Notes) != c.notes || c.notes > 0 && !strings.Contains(got.Notes[0], "by 16.2 %") {
			t.Errorf("%+v: %q", c, got.Notes)
		}
	}
}

// A closed loop whose requests start together gets a note, but stays valid.
func TestWavesAreTold(t *testing.T) {
	e := sound()
	e.Summaries[metricStartGap].Std = 56
	got := Judge(e)
	if got.Verdict != Valid || len(got.Notes) != 1 ||
		!strings.Contains(got.Notes[0], "started in waves") {
		t.Errorf("%s, %q", got.Verdict, got.Notes)
	}
	for name, change := range map[string]func(*Evidence){
		"at random":    func(e *Evidence) { e.Summaries[metricStartGap].Std = 6 },
		"another load": func(e *Evidence) { e.Closed = nil },
		"few slots":    func(e *Evidence) { e.Closed.Concurrency = 4 },
		"few rounds":   func(e *Evidence) { e.Counts[measure.Started] = 300 },
	} {
		e := sound()
		e.Summaries[metricStartGap].Std = 56
		if change(&e); len(Judge(e).Notes) != 0 {
			t.Errorf("%s: %q", name, Judge(e).Notes)
		}
	}
}

// What changed in the course of a stage is told with when, and stays valid; what is usual is not told.
func TestCourseIsTold(t *testing.T) {
	// seconds returns the throughput of some seconds. -1: silence.
	seconds := func(rates ...float64) (all []Second) {
		for i, r := range rates {
			all = append(all, Second{Number: int64(i) + 3, InFlight: 100, Silent: r < 0, Rate: max(0, r)})
		}
		return all
	}
	step, wild := func(e *Evidence) {
		e.Open, e.Seconds = nil, seconds(90, 92, 91, 90, 89, 90, 93, 30, 31, 30, 29, 30, 31, 30, 31)
	}, []float64{90, 20, 91, 20, 89, 22, 93, 30, 31, 90, 29, 30, 80, 30, 31}
	flow := &merge.Flow{Level: 100, InFlight: 150, Started: 400, Ended: 300, Seconds: 20}
	for name, c := range map[string]struct {
		change func(*Evidence)
		want   string
	}{
		"silence": {func(e *Evidence) { e.Seconds = seconds(9, -1, 9, 9, -1, -1, -1, 9) },
			"no token arrived in 4 of 8 seconds, the longest time from second 7 to 10, with up to 100 requests in flight"},
		"usual silence": {func(e *Evidence) { e.Seconds, e.Summaries[metricTTFT].P50 = seconds(9, -1, 9), 600 }, ""},
		"slow tokens":   {func(e *Evidence) { e.Seconds, e.Summaries[metricITL].P50 = seconds(9, -1, 9), 600 }, ""},
		"no token":      {func(e *Evidence) { e.Seconds, e.Summaries[metricTTFT] = seconds(-1, -1), nil }, ""},
		"slower":        {step, "the throughput fell by 66.7 % around second 10, and the stage's numbers mix both times"},
		"faster": {func(e *Evidence) { step(e); slices.Reverse(e.Seconds) },
			"the throughput rose by 200 % around second 9"},
		"by chance":     {func(e *Evidence) { e.Open, e.Seconds = nil, seconds(wild...) }, ""},
		"long requests": {func(e *Evidence) { step(e); e.Summaries[metricE2E].Mean = 3000 }, ""},
		"few seconds":   {func(e *Evidence) { step(e); e.Seconds = e.Seconds[1:] }, ""},
		"phases":        {func(e *Evidence) { step(e); e.Closed = nil }, ""},
		"in flight": {func(e *Evidence) { step(e); slices.Reverse(e.Seconds); e.Open = &Open{Asked: 20, Achieved: 20} },
			"the number of requests in flight rose by 200 %"},
		"in flight, by chance": {func(e *Evidence) {
			e.Open = &Open{Asked: 20, Achieved: 20}
			e.Seconds = seconds(4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6)
		}, ""},
		"overload": {func(e *Evidence) { e.Open.Flow = flow }, "did not keep up with the rate: in the second half 15 of 20 requests/s " +
			"ended, and the requests in flight grew from 150 to 250"},
		"overload by chance": {func(e *Evidence) { e.Open.Flow, e.Open.Shape = flow, 0.1 }, ""},
		"kept up":            {func(e *Evidence) { e.Open.Flow = &merge.Flow{Level: 9, Started: 500, Ended: 390, Seconds: 20} }, ""},
	} {
		e := sound()
		c.change(&e)
		got := Judge(e)
		if c.want == "" && len(got.Notes) > 0 || c.want != "" &&
			(got.Verdict != Valid || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], c.want) ||
				!OfCourse(got.Notes[0])) {
			t.Errorf("%s: %s, notes %q, want %q", name, got.Verdict, got.Notes, c.want)
		}
		if got.Behind() != (name == "overload") {
			t.Errorf("%s: behind: %v", name, got.Behind())
		}
	}
}

// What max_in_flight holds back is told, and does not make the numbers doubtful. Where it holds nothing back, the rate
// is checked as without it.
func TestHeldBackIsTold(t *testing.T) {
	e := sound()
	e.MaxInFlight, e.Open.Achieved, e.NeverSent, e.AfterFailure = 64, 5, new(uint64(0)), nil
	if got := Judge(e); got.Verdict != Invalid || !strings.Contains(got.Reasons()[0], "sent 5 requests/s") ||
		len(got.Notes) != 0 {
		t.Errorf("nothing held back: %s, %q, notes %q", got.Verdict, got.Reasons(), got.Notes)
	}
	const held, end = "max_in_flight 64 held back 900 of 1000 requests, for 2.5 s on average and 5.25 s at most",
		": latencies count from when a request was sent, those from the schedule from when it was due"
	summary := &histogram.Summary{Count: 900, Mean: 2500, Max: 5250}
	for note, change := range map[string]func(*Evidence){
		held + end: func(e *Evidence) { e.Summaries[metricHeld] = summary },
		held + ", and 70 until the end, which were never sent" + end: func(e *Evidence) {
			e.Summaries[metricHeld], e.NeverSent = summary, new(uint64(70))
		},
		"max_in_flight 64 held back 70 until the end, which were never sent" + end: func(e *Evidence) {
			e.NeverSent = new(uint64(70))
		},
	} {
		e := e
		change(&e)
		if got := Judge(e); got.Verdict != Valid || len(got.Notes) != 1 || got.Notes[0] != note {
			t.Errorf("%s, %q, notes %q, want %q", got.Verdict, got.Reasons(), got.Notes, note)
		}
	}
}

// Connections that ended before an answer, and responses that ended late, are told and doubt nothing.
func TestConnectionsAreTold(t *testing.T) {
	e := sound()
	e.Counts[measure.Reconnected], e.Counts[measure.LateEnds] = 12, 900
	e.Summaries[metricLateEnd] = &histogram.Summary{Count: 890, P50: 101, Max: 150}
	got := Judge(e)
	if got.Verdict != Valid || len(got.Notes) != 2 || !strings.Contains(got.Notes[0], "12 of 1000 requests were sent once more") ||
		!strings.Contains(got.Notes[1], "900 of 1000 responses ended late, 101 ms after") {
		t.Errorf("%s, %q, notes %q", got.Verdict, got.Reasons(), got.Notes)
	}
}

// Failures of the server do not make the measurement invalid.
func TestUnmeasured(t *testing.T) {
	e := sound()
	e.Counts[measure.Completed], e.Counts[measure.Failed] = 500, 500
	if got := Judge(e); got.Verdict != Invalid || got.Unmeasured() != "" {
		t.Errorf("%s: %q", got.Verdict, got.Unmeasured())
	}
	e.Counts[measure.WholeAnswers] = 500
	if got := Judge(e).Unmeasured(); got != "500 of 500 answers came as one body: the server does not stream" {
		t.Errorf("%q", got)
	}
}

func TestWhatIsNotKnownIsNotChecked(t *testing.T) {
	if got := Judge(Evidence{}); got.Verdict != Valid || len(got.Checks) != 0 {
		t.Errorf("%+v", got)
	}
	e := sound()
	e.Counts[measure.WithoutUsage], e.Counts[measure.ISLCompared] = e.Counts[measure.Completed], 0
	e.Summaries[metricTTFT] = nil
	for _, c := range Judge(e).Checks {
		if c.Name == "isl" || c.Name == "identity" {
			t.Errorf("%s was checked: %s", c.Name, c.Words)
		}
		if c.Name == "usage" && c.Verdict != Valid {
			t.Errorf("no usage at all is %s", c.Verdict)
		}
	}
}

// If the time per token is so short that a gap divided by it is infinite, the check can still be encoded.
func TestBunchingAtNoTimeAToken(t *testing.T) {
	e := sound()
	e.Summaries[metricITL].P50, e.Summaries[metricTPOT].P50 = 2048, 1e-305
	if got := Judge(e); got.Verdict != Valid {
		t.Errorf("%s: %q", got.Verdict, got.Reasons())
	} else if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

// One late request of forty counts as a hiccup: the others decide.
func TestOneLateRequestOfFewIsAHiccup(t *testing.T) {
	e := sound()
	e.Closed = nil
	e.Summaries[metricTTFT] = &histogram.Summary{Count: 40, Mean: 50, P50: 50, P99: 50}
	e.Summaries[metricTTFTScheduled] = &histogram.Summary{Count: 40, P50: 50.1, P95: 52, P99: 550}
	if got := Judge(e); got.Verdict != Valid {
		t.Errorf("%s: %q", got.Verdict, got.Reasons())
	}
}

// The verdict is that of the worst check, each failed check is a reason, and the result can be encoded as JSON, for any
// evidence.
func TestVerdictIsThatOfTheWorstCheck(t *testing.T) {
	summaries := rapid.Custom(func(t *rapid.T) *histogram.Summary {
		v := rapid.Float64Range(0, 1e7)
		return &histogram.Summary{
			Count: rapid.Uint64Range(1, 1e6).Draw(t, "count"), Mean: v.Draw(t, "mean"), Std: v.Draw(t, "std"),
			P50: v.Draw(t, "p50"), P95: v.Draw(t, "p95"), P99: v.Draw(t, "p99"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1e6)
		e := sound()
		e.NeverSent = new(n.Draw(t, "never"))
		for _, c := range measure.Counters() {
			e.Counts[c] = n.Draw(t, c.String())
		}
		for _, m := range []spatev1.Metric{
			metricSendDelay, metricITL, metricTPOT, metricTTFT, metricTTFTScheduled, metricE2E,
		} {
			e.Summaries[m] = summaries.Draw(t, measure.Of(m).Name)
		}
		e.Open = &Open{Asked: rapid.Float64Range(1e-6, 1e7).Draw(t, "asked"),
			Achieved: rapid.Float64Range(0, 1e7).Draw(t, "achieved"), Shape: 1}
		got := Judge(e)
		worst, bad := 0, 0
		for _, c := range got.Checks {
			worst = max(worst, c.Verdict.rank())
			if c.Verdict != Valid {
				bad++
			}
		}
		if got.Verdict.rank() != worst || len(got.Reasons()) != bad || got.Verdict.Number() != uint64(worst) {
			t.Fatalf("%+v", got)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
	})
}

// A remedy is that of the cause, and not one that the plan has already.
func TestRemediesAreThoseOfTheCause(t *testing.T) {
	verdicts, err := os.ReadFile("../../docs/verdicts.md")
	if err != nil {
		t.Fatal(err)
	}
	failed := func(class string) func(*Evidence) {
		return func(e *Evidence) {
			e.Counts[measure.Completed], e.Counts[measure.Failed], e.Errors = 900, 100, map[string]uint64{class: 80, "other": 20}
		}
	}
	for name, c := range map[string]struct {
		change func(*Evidence)
		want   string
	}{
		"stopped":    {func(e *Evidence) { e.Missing = []string{"the stage was stopped"} }, "Run the stage again to its end"},
		"agent lost": {func(e *Evidence) { e.Missing, e.AgentLost = []string{"agent b lost"}, true }, "on_agent_loss: reassign"},
		"taken over": {func(e *Evidence) { e.Missing, e.AgentLost, e.Reassigned = []string{"agent b lost"}, true, true },
			"until others took over or the stage ended"},
		"429": {failed("http_429"), "refuses requests beyond it"},
		"401": {failed("http_401"), "API key"},
		"404": {failed("http_404"), "address, api or model"},
		"not started": {func(e *Evidence) {
			*e = Evidence{Ended: true, Missing: []string{}}
		}, "kept the stage from starting"},
		"400":      {failed("http_400"), "what the server refuses"},
		"500":      {failed("http_500"), "server's log"},
		"timeouts": {failed("timeout"), "timeouts"},
		"cut":      {failed("cut_stream"), "why it ended answers early"},
		"no class": {failed("bad_frame"), "what the errors report"},
		"in one piece": {func(e *Evidence) { e.Counts[measure.WholeAnswers], e.Counts[measure.StreamedAnswers] = 900, 100 },
			"set the target's stream"},
		"uncounted": {func(e *Evidence) {
			e.Uncounted, e.Counts[measure.ISLCompared], e.Counts[measure.ISLFar] = true, 1000, 900
		}, "the server cannot count the prompts"},
		"cached":                {func(e *Evidence) { e.CachedShare = new(0.9) }, "cache_busting: request"},
		"cached, though unique": {func(e *Evidence) { e.CachedShare, e.CacheBusting = new(0.9), true }, "system prompt"},
		"read late": {func(e *Evidence) { e.Counts[measure.SharedFrames], e.Counts[measure.CoalescedReads] = 9000, 9000 },
			"CAP_BPF"},
	} {
		e := sound()
		c.change(&e)
		got := Judge(e).Failed()
		if len(got) != 1 || !strings.Contains(*got[0].Remedy, c.want) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
			continue
		}
		if !strings.Contains(strings.Join(strings.Fields(string(verdicts)), " "), *got[0].Remedy) {
			t.Errorf("docs/verdicts.md does not have the remedy %q", *got[0].Remedy)
		}
	}
}

// Each check is in docs/results.md and has a section in docs/verdicts.md that starts with its remedy.
func TestEveryCheckIsInTheDocs(t *testing.T) {
	results, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := os.ReadFile("../../docs/verdicts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !strings.Contains(string(results), "`"+c.name+"`") {
			t.Errorf("docs/results.md does not explain %s", c.name)
		}
		if !strings.Contains(string(verdicts), "\n## "+c.name+"\n\n"+c.remedy+"\n") {
			t.Errorf("docs/verdicts.md has no section on %s that begins with its remedy", c.name)
		}
	}
}

// Answers in one piece are no flaw if the plan asks for them.
func TestWholeAnswersAsRequested(t *testing.T) {
	e := Evidence{Whole: true, Ended: true}
	e.Counts[measure.Completed] = 1000
	c, known := streaming(e)
	if !known || c.Verdict != Valid || c.Words != "every answer came in one piece, as requested" {
		t.Errorf("%+v", c)
	}
}
