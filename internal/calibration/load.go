package calibration

import (
	"fmt"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/words"
)

// Load is one load for the agent: streams that are kept open, or requests that are started.
type Load struct {
	// Streams is the number of streams at once, in a closed loop of long requests. 0: a load of starts.
	Streams int
	// Starts is the number of short requests started per second, evenly, in an open loop. 0: a load of streams.
	Starts float64
}

// Step is the time between two tokens of a stream.
const Step = 20 * time.Millisecond

const (
	// shortTokens is how many tokens short requests have: the fewest with all of TTFT, ITL and E2E.
	shortTokens = 2
	// promptTokens is the length of prompts. The cost of a prompt is paid before its request starts.
	promptTokens = 16
	// rampRate is how many streams are opened per second, and shortestRamp the minimum duration of that. A load is
	// measured once it is complete.
	rampRate     = 4000
	shortestRamp = 500 * time.Millisecond
	// settleTime is how long a complete load runs before it is measured, with the time from arming to its start.
	settleTime = 600 * time.Millisecond
	// spareTime is how much longer a load lasts than it is measured.
	spareTime = 300 * time.Millisecond
)

// ramp returns how long a load takes to be complete.
func (l Load) ramp() time.Duration {
	return max(shortestRamp, time.Duration(l.Streams)*time.Second/rampRate)
}

// asked returns the requested rate per second: frames of streams with this step, or starts.
func (l Load) asked() float64 {
	if l.Streams > 0 {
		return float64(l.Streams) / Step.Seconds()
	}
	return l.Starts
}

// plan returns a load as a plan. A stream starts and ends about twice in a window, at different times: TTFT and E2E are
// then measured often, yet starts are few compared to frames.
func (l Load) plan(endpoints []string, window time.Duration) string {
	content, load := fmt.Sprintf("osl: %d", shortTokens), fmt.Sprintf("rate: [%f], arrival: constant", l.Starts)
	if l.Streams > 0 {
		most := max(4, int(window/Step))
		content = fmt.Sprintf("osl_lengths: {uniform: {min: %d, max: %d}}", most/2, most)
		load = fmt.Sprintf("concurrency: [%d], stagger: %v", l.Streams, l.ramp())
	}
	return fmt.Sprintf(`name: calibration
seed: 1
on_agent_loss: fail
drain_timeout: 1ms
targets:
  - name: calibration
    endpoints: ["%s"]
    model: calibration
    tokenizer: words
    exact_output: never
    running_usage: never
    server_metrics: {read: never}
    request_timeout: 5m
workloads: [{random: {isl: %d, %s}}]
loads: [{%s, duration: %v}]
`, strings.Join(endpoints, `", "`), promptTokens, content, load, window+spareTime)
}

// String names a load for people.
func (l Load) String() string {
	if l.Streams > 0 {
		return words.Thousands(uint64(l.Streams)) + " streams"
	}
	return words.Whole(l.Starts) + " starts/s"
}
