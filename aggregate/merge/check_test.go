package merge

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestAGoodSnapshotIsAccepted(t *testing.T) {
	if _, err := Check(fixture.GoodSnapshot(), fixture.RunRecord(1), fixture.StageRecord(0, 1)); err != nil {
		t.Error(err)
	}
}

// testRefused checks that a snapshot with any of the damages is refused, with an error that contains the words.
func testRefused(t *testing.T, damages map[string]func(*spatev1.Snapshot)) {
	t.Helper()
	for want, damage := range damages {
		s := fixture.GoodSnapshot()
		damage(s)
		_, err := Check(s, fixture.RunRecord(1), fixture.StageRecord(0, 1))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestSnapshotsOfOtherStagesAreRefused(t *testing.T) {
	testRefused(t, map[string]func(*spatev1.Snapshot){
		`of run "other"`:                  func(s *spatev1.Snapshot) { s.Key.RunId = "other" },
		`of run ""`:                       func(s *spatev1.Snapshot) { s.Key = nil },
		"of stage 10":                     func(s *spatev1.Snapshot) { s.StageIndex = 9 },
		"no sequence":                     func(s *spatev1.Snapshot) { s.Key.Sequence = 0 },
		"window 4294967295 is beyond":     func(s *spatev1.Snapshot) { s.Window = 1<<32 - 1 },
		`agent "z" takes no part`:         func(s *spatev1.Snapshot) { s.Key.Agent = "z" },
		"as process 1, not as 2":          func(s *spatev1.Snapshot) { s.Key.Incarnation = 2 },
		"first window, 8, is behind":      func(s *spatev1.Snapshot) { s.FirstWindow = new(uint32(8)) },
		"request rows dropped":            func(s *spatev1.Snapshot) { s.DroppedRecords = 1 << 43 },
		"65537 lists of items, more than": func(s *spatev1.Snapshot) { s.StartedItems = make([]uint64, 1<<16+1) },
	})
}

func TestSeriesOutOfBoundsAreRefused(t *testing.T) {
	testRefused(t, map[string]func(*spatev1.Snapshot){
		"endpoint 2: the target has 2": func(s *spatev1.Snapshot) { s.Series[1].Endpoint = 2 },
		"part 1: the workload has 1":   func(s *spatev1.Snapshot) { s.Series[1].Part = 1 },
		"is given twice": func(s *spatev1.Snapshot) {
			m := &spatev1.ModelCount{Model: "m", Requests: 1}
			s.Series[0].Counters.Completed, s.Series[0].Models = 9, []*spatev1.ModelCount{m, m}
		},
		"models of 2000 requests": func(s *spatev1.Snapshot) {
			s.Series[0].Models = []*spatev1.ModelCount{{Model: "m", Requests: 2000}}
		},
		"has impossible counts": func(s *spatev1.Snapshot) {
			s.Series[0].Models = []*spatev1.ModelCount{{Model: "m", Requests: 1, Streamed: 2}}
		},
		"endpoint 0: given twice":       func(s *spatev1.Snapshot) { s.Series[1].Endpoint = 0 },
		"counter tokens_arrived":        func(s *spatev1.Snapshot) { s.Series[0].Counters.TokensArrived = 1 << 63 },
		"counter without_usage is 99":   func(s *spatev1.Snapshot) { s.Series[0].Counters.WithoutUsage = 99 },
		"counter osl_missed is 99":      func(s *spatev1.Snapshot) { s.Series[0].Counters.OslMissed = 99 },
		"2 failed requests, but 1":      func(s *spatev1.Snapshot) { s.Series[1].Counters.Failed = 2 },
		"error class 77":                func(s *spatev1.Snapshot) { s.Series[1].Errors[0].Class = 77 },
		"error class 0":                 func(s *spatev1.Snapshot) { s.Series[1].Errors[0].Class = 0 },
		"HTTP status 7 is out of range": func(s *spatev1.Snapshot) { s.Series[1].Errors[0].HttpStatus = 7 },
		"error tls with HTTP status 429": func(s *spatev1.Snapshot) {
			s.Series[1].Errors[0].Class = spatev1.ErrorClass_ERROR_CLASS_TLS
		},
		"http_429 counts 0": func(s *spatev1.Snapshot) { s.Series[1].Errors[0].Count = 0 },
		"http_429 has 513":  func(s *spatev1.Snapshot) { s.Series[1].Errors[0].Example = strings.Repeat("x", 513) },
		"http_429 is given tw": func(s *spatev1.Snapshot) {
			s.Series[1].Errors = append(s.Series[1].Errors,
				s.Series[1].Errors[0])
		},
		"metric 99 is not known": func(s *spatev1.Snapshot) {
			s.Series[0].Distributions[0].Metric = 99
		},
		"metric -1 is not known": func(s *spatev1.Snapshot) { s.Series[0].Distributions[0].Metric = -1 },
		"metric 1 is not known or given twice": func(s *spatev1.Snapshot) {
			s.Series[0].Distributions = append(s.Series[0].Distributions, s.Series[0].Distributions[0])
		},
		"ttft_ms: histogram": func(s *spatev1.Snapshot) { s.Series[0].Distributions[0].Histogram = []byte("garbage") },
		"values in one window": func(s *spatev1.Snapshot) {
			h := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_TTFT))
			h.RecordN(5000, measure.MaxValues+1)
			s.Series[0].Distributions[0] = h.Proto(spatev1.Metric_METRIC_TTFT)
		},
	})
}

func TestRequestRowsOutOfBoundsAreRefused(t *testing.T) {
	testRefused(t, map[string]func(*spatev1.Snapshot){
		"bytes, more than 16777216": func(s *spatev1.Snapshot) {
			s.Records = append(s.Records, &spatev1.RequestRecord{Error: strings.Repeat("x", MaxSnapshotBytes)})
		},
		"request 4: part 1":         func(s *spatev1.Snapshot) { s.Records[0].Part = 1 },
		"request 4: endpoint 2":     func(s *spatev1.Snapshot) { s.Records[0].Endpoint = 2 },
		"request 4: error class 99": func(s *spatev1.Snapshot) { s.Records[0].ErrorClass = 99 },
		"request 4: a text of more": func(s *spatev1.Snapshot) { s.Records[0].Error = strings.Repeat("x", 4097) },
	})
}

func TestTotalsOutOfBoundsAreRefused(t *testing.T) {
	testRefused(t, map[string]func(*spatev1.Snapshot){
		"totals of no snapshots":       func(s *spatev1.Snapshot) { s.Totals.Snapshots = 0 },
		"totals: metric 0":             func(s *spatev1.Snapshot) { s.Totals.Values[0].Metric = 0 },
		"totals: a time 9000000000000": func(s *spatev1.Snapshot) { s.Totals.SteadyToNs = new(int64(9e18)) },
		"never sent":                   func(s *spatev1.Snapshot) { s.Totals.NeverSent = 1 << 60 },
		"totals: a text":               func(s *spatev1.Snapshot) { s.Totals.Failure = strings.Repeat("x", 5000) },
		"counter completed is 9223372": func(s *spatev1.Snapshot) { s.Totals.Counters.Completed = 1 << 63 },
	})
}

func TestRowsAreRefusedWhenTheRunKeepsNone(t *testing.T) {
	run := fixture.RunRecord(1)
	run.Records = ""
	_, err := Check(fixture.GoodSnapshot(), run, fixture.StageRecord(0, 1))
	if err == nil || !strings.Contains(err.Error(), "the run keeps none") {
		t.Error(err)
	}
	s := fixture.GoodSnapshot()
	s.Records, s.DroppedRecords = nil, 1
	if _, err := Check(s, run, fixture.StageRecord(0, 1)); err == nil ||
		!strings.Contains(err.Error(), "the run keeps none") {
		t.Error(err)
	}
}

func TestCheckKnowsProcessesApart(t *testing.T) {
	rec := fixture.StageRecord(0, 1)
	rec.Agents = append(rec.Agents, proto.CloneOf(rec.GetAgents()[0]))
	rec.Agents[0].Loss = &spatev1.Loss{FromWindow: 3}
	rec.Agents[1].Incarnation = 2
	for _, c := range []struct {
		incarnation uint64
		window      uint32
		want        string
	}{
		{1, 2, ""}, {2, 2, ""}, {2, 3, ""},
		{1, 3, `agent "a" was lost: its snapshots from window 3 on are refused, and this is window 3`},
		{3, 0, "takes part as process 2, not as 3"},
	} {
		s := fixture.GoodSnapshot()
		s.Key.Incarnation, s.Window = c.incarnation, c.window
		_, err := Check(s, fixture.RunRecord(1), rec)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("process %d, window %d: %v, want %q", c.incarnation, c.window, err, c.want)
		}
	}
}
