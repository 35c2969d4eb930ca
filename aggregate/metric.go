package aggregate

import (
	"fmt"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// metricCount is one more than the highest metric: metrics index arrays.
const metricCount = int(spatev1.Metric_METRIC_TLS) + 1

// metricNames are the names of metrics in results.json. Each ends in the unit of its values there.
var metricNames = [metricCount]string{
	spatev1.Metric_METRIC_TTFT:                  "ttft_ms",
	spatev1.Metric_METRIC_TTFT_SCHEDULED:        "ttft_scheduled_ms",
	spatev1.Metric_METRIC_E2E:                   "e2e_ms",
	spatev1.Metric_METRIC_E2E_SCHEDULED:         "e2e_scheduled_ms",
	spatev1.Metric_METRIC_TPOT:                  "tpot_ms",
	spatev1.Metric_METRIC_ITL:                   "itl_ms",
	spatev1.Metric_METRIC_SEND_DELAY:            "send_delay_ms",
	spatev1.Metric_METRIC_CONNECT:               "connect_ms",
	spatev1.Metric_METRIC_ISL:                   "isl_tokens",
	spatev1.Metric_METRIC_OSL:                   "osl_tokens",
	spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME: "tokens_per_frame",
	spatev1.Metric_METRIC_FAILURE_TIME:          "failure_time_ms",
	spatev1.Metric_METRIC_RECEIVE_LAG:           "receive_lag_ms",
	spatev1.Metric_METRIC_FIRST_FRAME:           "first_frame_ms",
	spatev1.Metric_METRIC_FIRST_FRAME_GAP:       "first_frame_gap_ms",
	spatev1.Metric_METRIC_TPOT_FIRST_FRAME:      "tpot_first_frame_ms",
	spatev1.Metric_METRIC_RTT:                   "rtt_ms",
	spatev1.Metric_METRIC_DNS:                   "dns_ms",
	spatev1.Metric_METRIC_TCP:                   "tcp_ms",
	spatev1.Metric_METRIC_TLS:                   "tls_ms",
}

// Metrics lists every metric, in the order of the protocol.
func Metrics() []spatev1.Metric {
	metrics := make([]spatev1.Metric, 0, metricCount-1)
	for m := 1; m < metricCount; m++ {
		metrics = append(metrics, spatev1.Metric(m))
	}
	return metrics
}

// MetricName returns the metric's name in results.json, or "" if it is unknown.
func MetricName(m spatev1.Metric) string {
	if !known(m) {
		return ""
	}
	return metricNames[m]
}

// known says whether this program knows a metric.
func known(m spatev1.Metric) bool { return m > 0 && int(m) < metricCount }

// MetricScale is what recorded values are divided by to get the unit of the metric in results.json.
func MetricScale(m spatev1.Metric) float64 {
	switch m {
	case spatev1.Metric_METRIC_ISL, spatev1.Metric_METRIC_OSL:
		return 1
	case spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME:
		return 1e3
	}
	return nanosPerMs
}

// Units.
const (
	nanosPerMs     = 1e6
	nanosPerSecond = 1e9
)

// metricSet is a set of metrics, a bit each.
type metricSet uint32

// setOf returns the set of some metrics.
func setOf(metrics ...spatev1.Metric) metricSet {
	var set metricSet
	for _, m := range metrics {
		set |= 1 << m
	}
	return set
}

// has says whether m is in the set.
func (s metricSet) has(m spatev1.Metric) bool { return s&(1<<m) != 0 }

// What parts of a stage keep. A histogram is large, so a part keeps the few that it shows:
// regionMetrics are those of one window of a region.
var (
	allMetrics    = metricSet(1<<metricCount - 1)
	keyMetrics    = setOf(spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_TPOT, spatev1.Metric_METRIC_E2E)
	pathMetrics   = setOf(spatev1.Metric_METRIC_CONNECT, spatev1.Metric_METRIC_RTT)
	regionMetrics = keyMetrics | pathMetrics | setOf(spatev1.Metric_METRIC_ITL, spatev1.Metric_METRIC_SEND_DELAY)
)

// errorName is the name of a kind of failure in results.json.
func errorName(class spatev1.ErrorClass, httpStatus uint32) string {
	if class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS {
		return fmt.Sprintf("http_%d", httpStatus)
	}
	return ErrorClassName(class)
}

// ErrorClassName is the name of an error class in results.json and in request rows, without an HTTP status.
func ErrorClassName(class spatev1.ErrorClass) string {
	return strings.ToLower(strings.TrimPrefix(class.String(), "ERROR_CLASS_"))
}
