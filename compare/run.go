package compare

import "github.com/spate-load/spate/aggregate/results"

// Run is a run to compare.
type Run struct {
	// Name of the run for people: the path it was read from.
	Name string
	// Result of the run.
	Result *results.Result
	// Requests calls each with the measured requests of a stage by its index, in any order, and stops at the first
	// error. It may be called several times. Nil: the run has no request rows.
	Requests func(stage uint32, each func(*Request) error) error
	// Definitions has a hash of each stage's workload, load and seed, by the stage's index. Nil: not known.
	Definitions map[uint32]string
	// UniqueStarts has the stages whose prompts begin with words of their own in each run (cache_busting), by index.
	UniqueStarts map[uint32]bool
}

// Request is what a comparison needs of one request. Times are nanoseconds since the stage's start. It is valid only
// during the call that it is passed to.
type Request struct {
	// Index of the request or its session in the stage, and its turn in the session.
	Index uint64
	Turn  uint32
	// Tokens asked for.
	ISLAsked, OSLAsked uint32
	// Hash of the request body.
	BodyHash uint64
	// Start and end.
	StartNs, EndNs int64
	// First and last token. Nil: the request did not get that far, or its answer came as one body.
	FirstTokenNs, LastTokenNs *int64
	// Output tokens seen.
	OutputTokens uint64
	// The request completed: it neither failed nor was cancelled.
	Completed bool
	// The request was cut off by a stop or the end of the drain.
	Cancelled bool
	// Gaps between token frames.
	ITLNs []int64
}
