package calibration

import (
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
)

// Spread is the distribution of some times, in nanoseconds. If there are no times, all fields are 0, including Count.
type Spread struct {
	Count uint64 `json:"count"`
	P50   int64  `json:"p50_ns"`
	P99   int64  `json:"p99_ns"`
	P999  int64  `json:"p999_ns"`
	Max   int64  `json:"max_ns"`
}

// spreadOf returns the distribution in a histogram.
func spreadOf(h *histogram.Histogram) Spread {
	var values [3]int64
	h.Percentiles([]float64{50, 99, 99.9}, values[:])
	return Spread{Count: h.Count(), P50: values[0], P99: values[1], P999: values[2], Max: h.Max()}
}

// Errors are the errors of one number against the truth, by both clocks.
type Errors struct {
	// Stamp uses the kernel's timestamp, as a run does.
	Stamp Spread `json:"stamp"`
	// Program uses the time at which the program had read the frame, as a run would without timestamps.
	Program Spread `json:"program"`
}

// Reading is what the agent's process saw in a window.
type Reading struct {
	// Frame is the error of each frame with token text, TTFT that of each first one, and E2E that of each last one. ITL
	// is the difference between the errors of two consecutive ones. Inner is ITL without the gap before a request's
	// last frame: the end of the answer follows right after that frame, and if both are read together the kernel has
	// only the end's time for them.
	Frame          Errors `json:"frame"`
	TTFT           Errors `json:"ttft"`
	ITL            Errors `json:"itl"`
	ITLWithoutLast Errors `json:"itl_without_last"`
	E2E            Errors `json:"e2e"`
	// Lag is the time from the kernel's timestamp to the program's reading, once per read.
	Lag Spread `json:"receive_lag"`
	// Lateness is the time from a request's scheduled time to its start.
	Lateness Spread `json:"send_lateness"`
	// Frames with token text: all, those that shared a read with the previous one, those without a timestamp, and those
	// without a true send time.
	Frames       uint64 `json:"frames"`
	Coalesced    uint64 `json:"coalesced_frames"`
	Unstamped    uint64 `json:"unstamped_frames"`
	WithoutTruth uint64 `json:"frames_without_truth"`
	// Requests that started, completed and failed.
	Started   uint64 `json:"started"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	// Failure is the message of the last failure. Empty: none.
	Failure string `json:"failure,omitempty"`
}

// Usage is a process's use of the machine so far.
type Usage struct {
	// At is when the usage was read.
	At clock.Instant `json:"at_ns"`
	// CPU is the time used on all cores.
	CPU time.Duration `json:"cpu_ns"`
}

// cores returns the mean use since an earlier reading, in cores.
func (u Usage) cores(since Usage) float64 {
	if passed := u.At.Sub(since.At); passed > 0 {
		return (u.CPU - since.CPU).Seconds() / passed.Seconds()
	}
	return 0
}
