package stream

import (
	"encoding/json"
	"math"
	"time"
)

// read takes what Dynamo says of its own times: {"timing": {"ttft_ms": 12.3, ...}}. It sends that in "nvext" to
// requests whose own "nvext" has "extra_fields": ["timing"]. What is missing, or no time, stays unset.
func (t *ServerTiming) read(nvext []byte) {
	var said struct {
		Timing struct {
			TTFT    *float64 `json:"ttft_ms"`
			Queue   *float64 `json:"prefill_wait_time_ms"`
			Prefill *float64 `json:"prefill_time_ms"`
			Total   *float64 `json:"total_time_ms"`
		} `json:"timing"`
	}
	if json.Unmarshal(nvext, &said) != nil {
		return
	}
	for _, part := range []struct {
		ms   *float64
		into **time.Duration
	}{
		{said.Timing.TTFT, &t.TTFT}, {said.Timing.Queue, &t.Queue},
		{said.Timing.Prefill, &t.Prefill}, {said.Timing.Total, &t.Total},
	} {
		if d, ok := milliseconds(part.ms); ok {
			*part.into = &d
		}
	}
}

// longestTiming is the longest time that a server is believed.
const longestTiming = time.Hour

// milliseconds is a number of them, if there is one and it can be true.
func milliseconds(ms *float64) (time.Duration, bool) {
	if ms == nil || !(*ms >= 0 && *ms <= float64(longestTiming.Milliseconds())) {
		return 0, false
	}
	return time.Duration(math.Round(*ms * float64(time.Millisecond))), true
}
