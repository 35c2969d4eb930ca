package measure

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// Metric describes one distribution.
type Metric struct {
	// ID is the metric's number in the protocol.
	ID spatev1.Metric
	// Name is the metric's name in results.json and in databases. It ends with the unit used there.
	Name string
	// Unit is the unit of recorded values.
	Unit Unit
	// Parts are the parts of a stage that keep the metric, besides the whole stage and its windows.
	Parts Parts
	// Raw metrics are recorded only to compute others. Results and databases do not show them.
	Raw bool
}

// Unit is the unit of a metric's recorded values.
type Unit uint8

const (
	// Nanoseconds are recorded for times. Results have milliseconds.
	Nanoseconds Unit = iota
	// Tokens are recorded as they are.
	Tokens
	// Thousandths are recorded for ratios.
	Thousandths
)

// Scale returns the divisor that converts recorded values to the unit of results.
func (u Unit) Scale() float64 {
	switch u {
	case Tokens:
		return 1
	case Thousandths:
		return 1e3
	case Nanoseconds:
	}
	return 1e6
}

// Parts is a set of parts of a stage. Histograms are large, so a part keeps only the metrics that it shows.
type Parts uint8

const (
	// Breakdowns are endpoints and agents.
	Breakdowns Parts = 1 << iota
	// RegionWindows are single windows of a region or an observer.
	RegionWindows
	// Paths are the connections from a region to an endpoint.
	Paths
)

// Count is one more than the highest metric, so that a metric is an index of an array.
const Count = int(spatev1.Metric_METRIC_SERVER_TOTAL) + 1

// metrics is the catalogue of metrics, in the order of the protocol.
var metrics = [...]Metric{
	{ID: spatev1.Metric_METRIC_TTFT, Name: "ttft_ms", Parts: Breakdowns | RegionWindows},
	{ID: spatev1.Metric_METRIC_TTFT_SCHEDULED, Name: "ttft_scheduled_ms"},
	{ID: spatev1.Metric_METRIC_E2E, Name: "e2e_ms", Parts: Breakdowns | RegionWindows},
	{ID: spatev1.Metric_METRIC_E2E_SCHEDULED, Name: "e2e_scheduled_ms"},
	{ID: spatev1.Metric_METRIC_TPOT, Name: "tpot_ms", Parts: Breakdowns | RegionWindows},
	{ID: spatev1.Metric_METRIC_ITL, Name: "itl_ms", Parts: RegionWindows},
	{ID: spatev1.Metric_METRIC_SEND_DELAY, Name: "send_delay_ms", Parts: RegionWindows},
	{ID: spatev1.Metric_METRIC_CONNECT, Name: "connect_ms", Parts: RegionWindows | Paths},
	{ID: spatev1.Metric_METRIC_ISL, Name: "isl_tokens", Unit: Tokens},
	{ID: spatev1.Metric_METRIC_OSL, Name: "osl_tokens", Unit: Tokens},
	{ID: spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME, Name: "tokens_per_frame", Unit: Thousandths},
	{ID: spatev1.Metric_METRIC_FAILURE_TIME, Name: "failure_time_ms"},
	{ID: spatev1.Metric_METRIC_RECEIVE_LAG, Name: "receive_lag_ms"},
	{ID: spatev1.Metric_METRIC_VLLM_TTFT, Name: "vllm_ttft_ms"},
	{ID: spatev1.Metric_METRIC_VLLM_ITL_ADDED, Name: "vllm_itl_added_ms", Raw: true},
	{ID: spatev1.Metric_METRIC_VLLM_TPOT, Name: "vllm_tpot_ms"},
	{ID: spatev1.Metric_METRIC_RTT, Name: "rtt_ms", Parts: RegionWindows | Paths},
	{ID: spatev1.Metric_METRIC_DNS, Name: "dns_ms"},
	{ID: spatev1.Metric_METRIC_TCP, Name: "tcp_ms"},
	{ID: spatev1.Metric_METRIC_TLS, Name: "tls_ms"},
	{ID: spatev1.Metric_METRIC_VLLM_E2E, Name: "vllm_e2e_ms"},
	{ID: spatev1.Metric_METRIC_VLLM_ITL_LEFT_OUT, Name: "vllm_itl_left_out_ms", Raw: true},
	{ID: spatev1.Metric_METRIC_TTFT_TEXT, Name: "ttft_text_ms"},
	{ID: spatev1.Metric_METRIC_TTFT_ANSWER, Name: "ttft_answer_ms"},
	{ID: spatev1.Metric_METRIC_REASONING, Name: "reasoning_ms"},
	{ID: spatev1.Metric_METRIC_REASONING_TOKENS, Name: "reasoning_tokens", Unit: Tokens},
	{ID: spatev1.Metric_METRIC_START_GAP, Name: "start_gap_ms"},
	{ID: spatev1.Metric_METRIC_SERVER_TTFT, Name: "server_ttft_ms"},
	{ID: spatev1.Metric_METRIC_SERVER_QUEUE, Name: "server_queue_ms"},
	{ID: spatev1.Metric_METRIC_SERVER_PREFILL, Name: "server_prefill_ms"},
	{ID: spatev1.Metric_METRIC_SERVER_TOTAL, Name: "server_total_ms"},
}

// Metrics returns the catalogue, in the order of the protocol. Do not change it.
func Metrics() []Metric { return metrics[:] }

// Known reports whether this program knows a metric.
func Known(id spatev1.Metric) bool { return id > 0 && int(id) < Count }

// Of returns a metric by its number, the zero Metric if it is unknown.
func Of(id spatev1.Metric) Metric {
	if !Known(id) {
		return Metric{}
	}
	return metrics[id-1]
}

// Set is a set of metrics.
type Set uint64

// All is the set of all metrics.
const All Set = 1<<Count - 2

// SetOf returns the set of some metrics.
func SetOf(ids ...spatev1.Metric) Set {
	var set Set
	for _, id := range ids {
		set |= 1 << id
	}
	return set
}

// KeptBy returns the metrics that a part of a stage keeps.
func KeptBy(part Parts) Set {
	var set Set
	for _, m := range metrics {
		if m.Parts&part != 0 {
			set |= 1 << m.ID
		}
	}
	return set
}

// Has reports whether a metric is in the set.
func (s Set) Has(id spatev1.Metric) bool { return s&(1<<id) != 0 }
