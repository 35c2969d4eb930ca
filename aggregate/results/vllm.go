package results

import (
	"maps"
	"slices"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// vllm summarizes the stage by the definitions of vLLM's benchmark.
func (s sums) vllm() VLLM {
	v := VLLM{
		TTFT: vllmMetric(s.Total.Values[spatev1.Metric_METRIC_VLLM_TTFT]),
		TPOT: vllmMetric(s.Total.Values[spatev1.Metric_METRIC_VLLM_TPOT]),
		ITL:  vllmMetric(chunkGaps(s.Total)),
		E2EL: vllmMetric(s.Total.Values[spatev1.Metric_METRIC_VLLM_E2E]),
	}
	v.PeakOutputTokenThroughput, v.PeakConcurrentRequests = s.chunkPeaks()
	return v
}

// chunkPeaks returns the most chunks in a window, and the most requests that were in flight at any time during a
// window: those in flight at its start and those that started in it. Both are nil if there is no window.
func (s sums) chunkPeaks() (chunks *float64, requests *uint64) {
	if len(s.Windows) == 0 {
		return nil, nil
	}
	chunks, requests = new(float64), new(uint64)
	inFlight := uint64(0)
	for _, number := range slices.Sorted(maps.Keys(s.Windows)) {
		w := s.Windows[number]
		inFlight += w.Started
		*chunks, *requests = max(*chunks, float64(w.Chunks)), max(*requests, inFlight)
		inFlight -= min(inFlight, w.Ended)
	}
	return chunks, requests
}

// chunkGaps returns the gaps between chunks: the gaps between token frames, plus those only between chunks, minus those
// not between chunks. It returns nil if an agent's numbers are inconsistent.
func chunkGaps(t *merge.Tally) *histogram.Histogram {
	gaps := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_ITL))
	for _, m := range []spatev1.Metric{spatev1.Metric_METRIC_ITL, spatev1.Metric_METRIC_VLLM_ITL_ADDED} {
		if values := t.Values[m]; values != nil && gaps.Merge(values) != nil {
			return nil
		}
	}
	if values := t.Values[spatev1.Metric_METRIC_VLLM_ITL_LEFT_OUT]; values != nil && gaps.Subtract(values) != nil {
		return nil // an agent reported more gaps to leave out than it had
	}
	return gaps
}

// vllmMetric summarizes the values of a metric. It returns nil if there are none.
func vllmMetric(h *histogram.Histogram) *VLLMMetric {
	if h == nil || h.Count() == 0 {
		return nil
	}
	at := func(q float64) float64 { return h.Quantile(q) / nanosPerMs }
	return &VLLMMetric{
		Mean: h.Mean() / nanosPerMs, Median: at(0.5), Std: h.Std() / nanosPerMs, P90: at(0.9), P95: at(0.95),
		P99: at(0.99), Count: h.Count(),
	}
}

// reasoningOf summarizes the reasoning of completed requests. It returns nil if no request reported any.
func reasoningOf(t *merge.Tally) *Reasoning {
	d := t.Summary(spatev1.Metric_METRIC_REASONING_TOKENS)
	if d == nil {
		return nil
	}
	return &Reasoning{Tokens: t.Counters.GetReasoningTokens(), Hidden: t.Counters.GetHiddenReasoningTokens(),
		PerRequest: d}
}
