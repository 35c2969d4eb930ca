package stream

import (
	"encoding/json"
	"math"
	"time"
)

// read parses Dynamo's timings: {"timing": {"ttft_ms": 12.3, ...}}. Dynamo sends them in "nvext" if the request's own
// "nvext" has "extra_fields": ["timing"]. Values that are missing or implausible stay nil.
func (t *ServerTiming) read(nvext []byte) {
	var reported struct {
		Timing struct {
			TTFT    *float64 `json:"ttft_ms"`
			Queue   *float64 `json:"prefill_wait_time_ms"`
			Prefill *float64 `json:"prefill_time_ms"`
			Total   *float64 `json:"total_time_ms"`
		} `json:"timing"`
	}
	if json.Unmarshal(nvext, &reported) != nil {
		return
	}
	for _, part := range []struct {
		ms   *float64
		into **time.Duration
	}{
		{reported.Timing.TTFT, &t.TTFT}, {reported.Timing.Queue, &t.Queue},
		{reported.Timing.Prefill, &t.Prefill}, {reported.Timing.Total, &t.Total},
	} {
		if d, ok := milliseconds(part.ms); ok {
			*part.into = &d
		}
	}
}

// longestTiming is the longest plausible timing of a server.
const longestTiming = time.Hour

// milliseconds converts a timing. It returns false if the timing is missing or implausible.
func milliseconds(ms *float64) (time.Duration, bool) {
	if ms == nil || !(*ms >= 0 && *ms <= float64(longestTiming.Milliseconds())) {
		return 0, false
	}
	return time.Duration(math.Round(*ms * float64(time.Millisecond))), true
}
