package points

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// serverFields returns the fields of a stage's point that begin with server_.
func serverFields(r results.StageResult, v merge.View) string {
	rec := &spatev1.StageRecord{Stage: &spatev1.Stage{}, StartTime: timestamppb.Now()}
	var fields []string
	for _, f := range stage(sink.Scope{}, rec, r, v)[0].Rows()[0].Fields {
		if strings.HasPrefix(f.Key, "server_") {
			fields = append(fields, fmt.Sprint(f.Key, "=", float64(f.Int)+f.Float))
		}
	}
	return strings.Join(fields, " ")
}

// A stage's point has the servers' own latencies as far as they are known. If servers reported their TTFT in streams as
// well, server_ttft_ms is what the streams say, once.
func TestStageHasTheServersAccount(t *testing.T) {
	value := 12.5
	account := results.StageResult{ServerAccount: &servermetrics.ServerAccount{
		TTFT: &servermetrics.Comparison{Server: servermetrics.ServerLatency{Count: 4, Mean: 10,
			P50: &servermetrics.ServerQuantile{Value: &value}, P99: &servermetrics.ServerQuantile{Low: &value}}},
		E2E: &servermetrics.Comparison{Server: servermetrics.ServerLatency{Count: 4, Mean: 90}},
	}}
	var streams merge.View
	streams.Total.Summaries = []merge.MetricSummary{{Metric: spatev1.Metric_METRIC_SERVER_TTFT,
		Summary: histogram.Summary{Count: 3, Mean: 7, Std: 1, Min: 6, Max: 8, P50: 7, P90: 7, P95: 8, P99: 8,
			P99_9: 8}}}
	const ofAccount = "server_ttft_ms_count=4 server_ttft_ms_mean=10 server_ttft_ms_p50=12.5"
	const ofStreams = "server_ttft_ms_count=3 server_ttft_ms_mean=7 server_ttft_ms_std=1 server_ttft_ms_min=6 " +
		"server_ttft_ms_max=8 server_ttft_ms_p50=7 server_ttft_ms_p90=7 server_ttft_ms_p95=8 server_ttft_ms_p99=8 " +
		"server_ttft_ms_p99_9=8"
	const e2e = " server_e2e_ms_count=4 server_e2e_ms_mean=90"
	for _, c := range []struct {
		name   string
		result results.StageResult
		view   merge.View
		want   string
	}{
		{"account", account, merge.View{}, ofAccount + e2e},
		{"streams", results.StageResult{}, streams, ofStreams},
		{"both", account, streams, ofStreams + e2e},
	} {
		if got := serverFields(c.result, c.view); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
