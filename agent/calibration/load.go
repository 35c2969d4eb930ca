package calibration

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
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

// stage returns a load in the form that an agent gets.
func (l Load) stage(index uint32, where endpoints, step, window time.Duration) *spatev1.Stage {
	s := &spatev1.Stage{
		Index: index, Seed: 1, OnAgentLoss: "fail", DrainTimeout: durationpb.New(time.Second),
		Target: &spatev1.Target{
			Name: "calibration", Api: "chat", Model: "calibration", Endpoints: where.Short,
			ConnectTimeout: durationpb.New(5 * time.Second), RequestTimeout: durationpb.New(afterTime),
		},
	}
	content := &spatev1.RandomContent{Isl: promptTokens, Osl: shortTokens}
	if l.Streams > 0 {
		s.Target.Endpoints = where.Streams
		content.Osl, content.OslLengths = 0, lengthsFor(window, step)
		s.Load = &spatev1.LoadPoint{Concurrency: uint32(l.Streams), Phases: []*spatev1.Phase{
			phase(0, float64(l.Streams), l.ramp()), phase(float64(l.Streams), float64(l.Streams), window+afterTime),
		}}
	} else {
		s.Load = &spatev1.LoadPoint{Rate: l.Starts, Arrival: "constant", Duration: durationpb.New(window + afterTime)}
	}
	s.Workload = &spatev1.Workload{Name: "calibration", Content: &spatev1.Workload_Random{Random: content}}
	return s
}

// lengthsFor returns output lengths with which a stream starts and ends about twice in a window, at different times.
// TTFT and E2E are then measured often, yet starts are few compared to frames.
func lengthsFor(window, step time.Duration) *spatev1.Lengths {
	most := max(4, uint32(window/step))
	return &spatev1.Lengths{Distribution: &spatev1.Lengths_Uniform{Uniform: &spatev1.UniformLengths{Min: most / 2,
		Max: most}}}
}

func phase(from, to float64, lasts time.Duration) *spatev1.Phase {
	return &spatev1.Phase{From: from, To: &to, Duration: durationpb.New(lasts)}
}
