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
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A stage's point has the servers' own latencies as far as they are known.
func TestStageHasTheServersAccount(t *testing.T) {
	value := 12.5
	r := results.StageResult{ServerAccount: &servermetrics.ServerAccount{
		TTFT: &servermetrics.Comparison{Server: servermetrics.ServerLatency{Count: 4, Mean: 10,
			P50: &servermetrics.ServerQuantile{Value: &value}, P99: &servermetrics.ServerQuantile{Low: &value}}},
		E2E: &servermetrics.Comparison{Server: servermetrics.ServerLatency{Count: 4, Mean: 90}},
	}}
	rec := &spatev1.StageRecord{Stage: &spatev1.Stage{}, StartTime: timestamppb.Now()}
	var fields []string
	for _, f := range Stage(sink.Scope{}, rec, r, merge.View{})[0].Rows()[0].Fields {
		if strings.HasPrefix(f.Key, "server_") {
			fields = append(fields, fmt.Sprint(f.Key, "=", float64(f.Int)+f.Float))
		}
	}
	want := "server_ttft_ms_count=4 server_ttft_ms_mean=10 server_ttft_ms_p50=12.5 server_e2e_ms_count=4 server_e2e_ms_mean=90"
	if got := strings.Join(fields, " "); got != want {
		t.Errorf("%s", got)
	}
}
