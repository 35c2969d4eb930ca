package results

import (
	"github.com/spate-load/spate/aggregate/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// serverAccount compares the servers' own account of the stage so far with the clients'. It returns nil if there is
// none.
func (s sums) serverAccount() *servermetrics.ServerAccount {
	sent := s.Total.Counters.GetStarted() + s.Total.Counters.GetUnmeasuredStarted()
	for _, o := range s.Observers {
		sent += o.Totals.GetCounters().GetStarted()
	}
	of := s.Total.Summary
	return s.Servers.Compare(servermetrics.Client{
		Measured: s.Total.Counters.GetCompleted(), Sent: sent,
		TTFT: of(spatev1.Metric_METRIC_TTFT), ITL: of(spatev1.Metric_METRIC_ITL), TPOT: of(spatev1.Metric_METRIC_TPOT),
		E2E:       of(spatev1.Metric_METRIC_E2E),
		SendDelay: of(spatev1.Metric_METRIC_SEND_DELAY), ReceiveLag: of(spatev1.Metric_METRIC_RECEIVE_LAG),
		Connect: of(spatev1.Metric_METRIC_CONNECT), RTT: of(spatev1.Metric_METRIC_RTT),
	})
}
