package calibration

import (
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
)

// Spread says how some times are distributed, in nanoseconds. Without any it is all zero, and Count says so.
type Spread struct {
	Count uint64 `json:"count"`
	P50   int64  `json:"p50_ns"`
	P99   int64  `json:"p99_ns"`
	P999  int64  `json:"p999_ns"`
	Max   int64  `json:"max_ns"`
}

// spreadOf reads a histogram.
func spreadOf(h *histogram.Histogram) Spread {
	var values [3]int64
	h.Percentiles([]float64{50, 99, 99.9}, values[:])
	return Spread{Count: h.Count(), P50: values[0], P99: values[1], P999: values[2], Max: h.Max()}
}

// Errors are the errors of one number against the truth, by both clocks.
type Errors struct {
	// By the kernel's stamp: what a run reports.
	Stamp Spread `json:"stamp"`
	// By the time at which the program had read the frame: what it would report without stamps.
	Program Spread `json:"program"`
}

// Reading is what the agent's process saw in a window.
type Reading struct {
	// Frame is the error of each frame with token text, TTFT of each first one, E2E of each last one, and ITL the
	// difference between the errors of two that follow each other. Inner is ITL without the gap before a request's last
	// frame: the end of the answer comes right behind that frame, and if they are read together the kernel has the
	// end's time for both.
	Frame Errors `json:"frame"`
	TTFT  Errors `json:"ttft"`
	ITL   Errors `json:"itl"`
	Inner Errors `json:"itl_without_last"`
	E2E   Errors `json:"e2e"`
	// Lag is the time from the kernel's stamp to the program's reading, once a read.
	Lag Spread `json:"receive_lag"`
	// Lateness is the time from a request's schedule to its start.
	Lateness Spread `json:"send_lateness"`
	// Frames with token text: all, those that shared a read with the one before, those without a stamp, and those
	// without the truth.
	Frames    uint64 `json:"frames"`
	Coalesced uint64 `json:"coalesced_frames"`
	Unstamped uint64 `json:"unstamped_frames"`
	Untrue    uint64 `json:"frames_without_truth"`
	// Requests that started, ended well and failed.
	Started   uint64 `json:"started"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	// Failure is the last one's message. Empty: none failed.
	Failure string `json:"failure,omitempty"`
}

// Usage is a process's use of the machine so far.
type Usage struct {
	// At is when it was read.
	At clock.Instant `json:"at_ns"`
	// CPU is the time used of all cores.
	CPU time.Duration `json:"cpu_ns"`
}

// cores is the mean use since another reading, in cores.
func (u Usage) cores(since Usage) float64 {
	if passed := u.At.Sub(since.At); passed > 0 {
		return (u.CPU - since.CPU).Seconds() / passed.Seconds()
	}
	return 0
}
