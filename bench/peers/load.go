package main

import (
	"fmt"
	"time"
)

// Shape says when the server sends the tokens of its streams.
type Shape string

// The shapes.
const (
	Ticks     Shape = "ticks"     // all streams at the same instants, as engines with continuous batching do
	Spread    Shape = "spread"    // each stream at its own instants
	Published Shape = "published" // see published
)

// published is the load of the published figures of vllm-bench: ticks of 10 ms to 1,000 streams, with a new connection
// for each request.
var published = Load{Shape: Published, Streams: 1000, Requests: 1000, OSL: 100, TTFT: 50 * time.Millisecond,
	ITL: 10 * time.Millisecond}

// Load is the load that each tool puts on the server in one run, and how the server answers.
type Load struct {
	Shape   Shape `json:"shape"`
	Streams int   `json:"streams"`
	// Requests is the number of all requests in the run. Each stream sends the same number of them, one after another.
	Requests int `json:"requests"`
	// ISL and OSL are the tokens of each prompt and each output.
	ISL int `json:"isl"`
	OSL int `json:"osl"`
	// TTFT and ITL are the server's pace.
	TTFT time.Duration `json:"ttft_ns"`
	ITL  time.Duration `json:"itl_ns"`
}

// Pace says how loads are laid out.
type Pace struct {
	TTFT, ITL time.Duration
	// Frames is the most token frames per second that the server has to send. A load with more gets a longer ITL.
	Frames int
	// Lasting is about how long a load lasts. Each stream has at least one request, and a load has at least `fewest`.
	Lasting time.Duration
	ISL     int
	OSL     int
}

// fewest is the least number of requests for a mean.
const fewest = 5

// load lays out the load for that many streams.
func (p Pace) load(shape Shape, streams int) Load {
	itl := max(p.ITL, time.Duration(streams)*time.Second/time.Duration(p.Frames))
	l := Load{Shape: shape, Streams: streams, ISL: p.ISL, OSL: p.OSL, TTFT: p.TTFT, ITL: itl}
	l.Requests = streams * max(1, int(p.Lasting/l.request()), fewest/streams)
	return l
}

// request returns how long a request of the load takes if nothing is late.
func (l Load) request() time.Duration { return l.TTFT + time.Duration(l.OSL-1)*l.ITL }

// name distinguishes the load from others in the same run of the benchmark.
func (l Load) name() string { return fmt.Sprintf("%s-%d", l.Shape, l.Streams) }
