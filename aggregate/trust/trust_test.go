package trust

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

// sound is the evidence of a stage without blemish, on which every check can be made.
func sound() Evidence {
	return Evidence{
		Requests:    Requests{Started: 1000, Completed: 1000, NeverSent: ptr(uint64(0))},
		SendDelay:   &Times{Count: 1000, Mean: 0.2, P50: 0.1, P99: 1},
		ReceiveLag:  &Times{Count: 100_000, Mean: 0.1, P50: 0.1, P99: 2},
		TTFT:        &Times{Count: 1000, Mean: 50, P50: 50, P99: 80},
		TPOT:        &Times{Count: 1000, Mean: 10, P50: 10, P99: 12},
		ITL:         &Times{Count: 99_000, Mean: 10, P50: 10, P99: 20},
		E2E:         &Times{Count: 1000, Mean: 50 + 99*10, P50: 1040, P99: 1100},
		Streams:     Streams{TokenFrames: 100_000},
		Lengths:     Lengths{Exact: ptr(true), ISLCompared: 1000},
		SharedShare: ptr(0.3), CachedShare: ptr(0.25),
		Ended:       true,
		Concurrency: ptr(uint64(100)), PeakConcurrency: ptr(uint64(100)),
		Endpoints: []uint64{500, 500},
		Starts:    []float64{0.5, 1.5},
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

func TestEachFlawIsFoundByItsCheck(t *testing.T) {
	for name, c := range map[string]struct {
		flaw  func(*Evidence)
		check string
		want  Verdict
		words string
	}{
		"nothing completed":        {func(e *Evidence) { e.Requests = Requests{Started: 5} }, "measured", Invalid, "0 requests completed"},
		"an agent was lost":        {func(e *Evidence) { e.Missing = []string{"agent b lost", "no totals"} }, "completeness", Suspect, "agent b lost; no totals"},
		"2 % failed":               {func(e *Evidence) { e.Requests.Completed, e.Requests.Failed = 980, 20 }, "errors", Suspect, "20 of 1000 requests failed"},
		"GPUStack's 486 of 1000":   {func(e *Evidence) { e.Requests.Completed, e.Requests.Failed = 514, 486 }, "errors", Invalid, "486 of 1000"},
		"owed":                     {func(e *Evidence) { e.Requests.NeverSent = ptr(uint64(10)) }, "never_sent", Suspect, "10 requests were owed"},
		"half was owed":            {func(e *Evidence) { e.Requests.NeverSent = ptr(uint64(1000)) }, "never_sent", Invalid, ""},
		"late sends":               {func(e *Evidence) { e.SendDelay.P99 = 6 }, "send_delay", Suspect, "6.00 ms (budget 5.00 ms)"},
		"very late sends":          {func(e *Evidence) { e.SendDelay.P99 = 26 }, "send_delay", Invalid, ""},
		"late reads":               {func(e *Evidence) { e.ReceiveLag.P99 = 21 }, "receive_lag", Suspect, "21.00 ms"},
		"no stamps":                {func(e *Evidence) { e.Streams.UnstampedFrames = 100_000 }, "stamps", Suspect, "100.00 %"},
		"several frames in a read": {func(e *Evidence) { e.Streams.CoalescedReads = 200 }, "coalescing", Suspect, "0.20 %"},
		"answers of 2,000 frames, each in one read": {func(e *Evidence) {
			e.Streams, e.ReceiveLag.Count = Streams{TokenFrames: 100_000, CoalescedReads: 50}, 50
			e.ITL.P50, e.TPOT.P50 = 0, 0
		}, "coalescing", Suspect, "99.95 %"},
		"the same where few frames are stamped": {func(e *Evidence) {
			e.Streams, e.ReceiveLag.Count = Streams{TokenFrames: 100_000, UnstampedFrames: 50, CoalescedReads: 50}, 99_000
		}, "coalescing", Suspect, "0.95 %"},
		"a gap was not counted":   {func(e *Evidence) { e.ITL.Count-- }, "identity", Invalid, "differ"},
		"a proxy that buffers":    {func(e *Evidence) { e.ITL.P50 = 0.05 }, "bunching", Suspect, "0.050 ms at 10.000 ms a token"},
		"too few in flight":       {func(e *Evidence) { e.PeakConcurrency = ptr(uint64(90)) }, "concurrency", Suspect, "at most 90"},
		"an idle endpoint":        {func(e *Evidence) { e.Endpoints = []uint64{1000, 0} }, "endpoints", Suspect, "1 of 2"},
		"agents that began apart": {func(e *Evidence) { e.Starts[1] = 150 }, "starts", Suspect, "150.0 ms"},
		"other prompts":           {func(e *Evidence) { e.Lengths.ISLMissed = 20 }, "isl", Suspect, "2.0 %"},
		"other outputs":           {func(e *Evidence) { e.Lengths.OSLMissed = 20 }, "osl", Suspect, "2.0 %"},
		"usage of some":           {func(e *Evidence) { e.Lengths.WithoutUsage = 1 }, "usage", Suspect, "1 of 1000"},
		"a cache that knows us":   {func(e *Evidence) { e.CachedShare = ptr(0.9) }, "prefix_cache", Suspect, "90.0 %"},
	} {
		t.Run(name, func(t *testing.T) {
			e := sound()
			c.flaw(&e)
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
		})
	}
}

func TestWhatIsNotKnownIsNotChecked(t *testing.T) {
	if got := Judge(Evidence{}); got.Verdict != Valid || len(got.Checks) != 0 {
		t.Errorf("%+v", got)
	}
	e := sound()
	e.Lengths.WithoutUsage, e.Lengths.ISLCompared, e.TTFT = e.Requests.Completed, 0, nil
	for _, c := range Judge(e).Checks {
		if c.Name == "isl" || c.Name == "identity" {
			t.Errorf("%s was checked: %s", c.Name, c.Words)
		}
		if c.Name == "usage" && c.Verdict != Valid {
			t.Errorf("no usage at all is %s", c.Verdict)
		}
	}
}

// A time a token so short that a gap divided by it is no number any more still gives a check that can be written.
func TestBunchingAtNoTimeAToken(t *testing.T) {
	e := sound()
	e.ITL.P50, e.TPOT.P50 = 2048, 1e-305
	if got := Judge(e); got.Verdict != Valid {
		t.Errorf("%s: %q", got.Verdict, got.Reasons())
	} else if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

// The worst check is the verdict, the reasons are those that failed, and all of it can be written as JSON, whatever was measured.
func TestVerdictIsThatOfTheWorstCheck(t *testing.T) {
	times := rapid.Custom(func(t *rapid.T) *Times {
		n := rapid.Uint64Range(1, 1e6).Draw(t, "count")
		v := rapid.Float64Range(0, 1e7)
		return &Times{n, v.Draw(t, "mean"), v.Draw(t, "p50"), v.Draw(t, "p99")}
	})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1e6)
		e := sound()
		e.Requests = Requests{n.Draw(t, "started"), n.Draw(t, "completed"), n.Draw(t, "failed"), ptr(n.Draw(t, "never"))}
		e.SendDelay, e.ITL, e.TPOT, e.TTFT, e.E2E = times.Draw(t, "delay"), times.Draw(t, "itl"), times.Draw(t, "tpot"), times.Draw(t, "ttft"), times.Draw(t, "e2e")
		e.Streams = Streams{n.Draw(t, "frames"), n.Draw(t, "coalesced"), n.Draw(t, "unstamped")}
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

func TestEveryCheckIsInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !strings.Contains(string(page), "`"+c.name+"`") {
			t.Errorf("docs/results.md does not explain %s", c.name)
		}
	}
}
