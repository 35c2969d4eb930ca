package executor

import (
	"fmt"
	"testing"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// BenchmarkOpenLoop starts requests by a schedule against a server in the same process, whose work is included in the
// results. The useful result is how late requests start.
func BenchmarkOpenLoop(b *testing.B) {
	for _, rate := range []float64{200, 2000} {
		b.Run(fmt.Sprintf("%.0f-per-second", rate), func(b *testing.B) {
			e := enginetest.New(b, 0, 0)
			a := enginetest.AssignOf(
				enginetest.StageOf(&spatev1.LoadPoint{Rate: rate, Arrival: "poisson", Requests: uint64(b.N)}, e),
				0,
			)
			a.Records = false
			benchmarkLoad(b, a)
		})
	}
}

// BenchmarkClosedLoop sends requests back to back on 8 slots to a server in the same process.
func BenchmarkClosedLoop(b *testing.B) {
	e := enginetest.New(b, 0, 0)
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 8, Requests: uint64(b.N)}, e), 0)
	a.Records = false
	benchmarkLoad(b, a)
}

// BenchmarkRests sends requests on 64 slots that rest for 5 ms between them. The useful result is how late rests end.
func BenchmarkRests(b *testing.B) {
	e := enginetest.New(b, 0, 0)
	load := &spatev1.LoadPoint{Concurrency: 64, Requests: uint64(b.N),
		ThinkTime: &spatev1.ThinkTime{Mean: span(5 * ms)}}
	a := enginetest.AssignOf(enginetest.StageOf(load, e), 0)
	a.Records = false
	benchmarkLoad(b, a)
}

// BenchmarkSessions plays sessions of one to three turns back to back on 8 slots. Its results are per session.
func BenchmarkSessions(b *testing.B) {
	e := enginetest.New(b, 0, 0)
	a := enginetest.AssignOf(sessionStage(&spatev1.LoadPoint{Concurrency: 8, Requests: uint64(b.N)}, nil, e), 0)
	a.Records = false
	benchmarkLoad(b, a)
}

func benchmarkLoad(b *testing.B, a *spatev1.Assign) {
	s, err := ready.Prepare(b.Context(), a, nil, resourcesOf(ready.Limits{}))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	delay := histogram.New(histogram.Times)
	b.ReportAllocs()
	New(s, Config{Start: clock.Now(), Emit: func(s *spatev1.Snapshot) {
		for _, series := range s.GetSeries() {
			for _, d := range series.GetDistributions() {
				if d.GetMetric() == spatev1.Metric_METRIC_SEND_DELAY {
					if err := delay.AddProto(d); err != nil {
						b.Error(err)
					}
				}
			}
		}
	}}).Run()
	b.ReportMetric(float64(delay.Percentile(50))/1e3, "send-delay-p50-us")
	b.ReportMetric(float64(delay.Percentile(99))/1e3, "send-delay-p99-us")
}
