package calibration

import (
	"fmt"
	"strings"
	"time"
)

// Load is one load for the agent: streams that are kept open, or requests that are started.
type Load struct {
	// Streams is the number of streams at once, in a closed loop of long requests. 0: a load of starts.
	Streams int `json:"streams,omitempty"`
	// Starts is the number of short requests started per second, evenly, in an open loop. 0: a load of streams.
	Starts float64 `json:"starts_per_second,omitempty"`
}

const (
	// shortStep is the time between tokens of short requests: that of the fastest engines.
	shortStep = 5 * time.Millisecond
	// shortTokens is how many tokens short requests have: the fewest with all of TTFT, ITL and E2E.
	shortTokens = 2
	// promptTokens is the length of prompts. The cost of a prompt is paid before its request starts.
	promptTokens = 16
	// rampRate is how many streams are opened per second, and shortestRamp the minimum duration of that. A load is
	// measured once it is complete.
	rampRate     = 4000
	shortestRamp = 500 * time.Millisecond
	// settleTime is how long a complete load runs before it is measured.
	settleTime = 300 * time.Millisecond
	// afterTime is how much longer than its window a load would last. It is ended as soon as it is measured.
	afterTime = 5 * time.Minute
)

// ramp returns how long a load takes to be complete.
func (l Load) ramp() time.Duration {
	return max(shortestRamp, time.Duration(l.Streams)*time.Second/rampRate)
}

// asked returns the requested rate per second: frames of streams with this step, or starts.
func (l Load) asked(step time.Duration) float64 {
	if l.Streams > 0 {
		return float64(l.Streams) / step.Seconds()
	}
	return l.Starts
}

// plan returns a load as a plan. A stream starts and ends about twice in a window, at different times: TTFT and E2E are
// then measured often, yet starts are few compared to frames.
func (l Load) plan(where endpoints, step, window time.Duration) string {
	urls, content := where.Short, fmt.Sprintf("isl: %d, osl: %d", promptTokens, shortTokens)
	load := fmt.Sprintf("rate: [%f], arrival: constant", l.Starts)
	if l.Streams > 0 {
		most := max(4, int(window/step))
		urls, content = where.Streams, fmt.Sprintf("isl: %d, osl_lengths: {uniform: {min: %d, max: %d}}", promptTokens,
			most/2, most)
		load = fmt.Sprintf("concurrency: [%d], stagger: %v", l.Streams, l.ramp())
	}
	return fmt.Sprintf(`name: calibration
seed: 1
on_agent_loss: fail
drain_timeout: 1s
targets:
  - name: calibration
    endpoints: ["%s"]
    model: calibration
    tokenizer: words
    exact_output: never
    running_usage: never
    server_metrics: {read: never}
    request_timeout: %v
workloads: [{random: {%s}}]
loads: [{%s, duration: %v}]
`, strings.Join(urls, `", "`), afterTime, content, load, window+afterTime)
}
