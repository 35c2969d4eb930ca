package servermetrics

import (
	"fmt"
	"testing"
)

// What servers and GPUs report is added up in the windows in which all of them did.
func TestLoads(t *testing.T) {
	until := func(last uint32, v float64) func(uint32) float64 {
		return func(w uint32) float64 {
			if w > last {
				return blankFloat
			}
			return v
		}
	}
	v := read(2, 2,
		gpuSeries{0, "vllm:num_requests_running", `engine="0"`, constant(3)},
		gpuSeries{0, "vllm:num_requests_running", `engine="1"`, constant(4)},
		gpuSeries{0, "sglang:num_queue_reqs", "", func(w uint32) float64 { return float64(w) }},
		gpuSeries{0, "vllm:kv_cache_usage_perc", `engine="0"`, constant(0.2)},
		gpuSeries{0, "vllm:kv_cache_usage_perc", `engine="1"`, constant(0.4)},
		gpuSeries{1, "DCGM_FI_DEV_POWER_USAGE", gpu0, constant(300)},
		gpuSeries{1, "DCGM_FI_DEV_POWER_USAGE", gpu0 + `,GPU_I_ID="1"`, constant(300)},
		gpuSeries{2, "DCGM_FI_DEV_POWER_USAGE", gpu0, constant(301)},
		gpuSeries{2, "DCGM_FI_DEV_POWER_USAGE", gpu1, until(1, 200)},
	)
	loads := v.Loads()
	for window, want := range []string{"7 0 0.3 500", "7 1 0.3 500", "7 2 0.3 n/a", "n/a n/a n/a n/a"} {
		l := loads[uint32(window)]
		if got := fmt.Sprintf("%s %s %s %s", text(l[Running]), text(l[Waiting]), text(l[KVCacheUse]), text(l[PowerW])); got != want {
			t.Errorf("window %d: %s, want %s", window, got, want)
		}
	}
}
