package trust

// Evidence is what a verdict rests on. Pointers are nil where nothing is known.
type Evidence struct {
	// Requests are the measured ones.
	Requests Requests
	// SendDelay, ReceiveLag, TTFT, TPOT, ITL and E2E are in milliseconds. Each read of token frames that the kernel
	// stamped has one receive lag.
	SendDelay, ReceiveLag, TTFT, TPOT, ITL, E2E *Times
	// StartGap is the time between starts of one agent, in milliseconds.
	StartGap *Times
	// TokensPerFrame has a value per request.
	TokensPerFrame *Times
	// Streams says how frames came.
	Streams Streams
	// Hiccup is the second in which most frames came in one read with the one before. Nil: not known, as while a stage
	// goes on.
	Hiccup *Hiccup
	// Lengths compares what was asked for with what came.
	Lengths Lengths
	// SharedShare and CachedShare are the parts of the prompts' tokens that the workload repeats, and that the server
	// took from its cache.
	SharedShare, CachedShare *float64
	// Missing says what a stage that has ended lacks, in words. Nil: it goes on.
	Missing []string
	// Ended says whether the stage has ended. What follows is known then only.
	Ended bool
	// Closed is the load of a closed loop that is to have all its requests in flight all the time. Nil: it is another
	// load.
	Closed *Closed
	// Open is the load of an open loop of one rate. Nil: it is another load.
	Open *Open
	// PeakConcurrency is the most that there were in flight.
	PeakConcurrency *uint64
	// PeakTokens is the most output tokens in a second.
	PeakTokens *float64
	// Endpoints has the requests that started at each endpoint.
	Endpoints []uint64
	// Starts has how far each agent's start was off the armed one, the clocks' uncertainty added, in milliseconds.
	Starts []float64
}

// Closed is a closed loop whose slots are never idle by plan.
type Closed struct {
	// Concurrency is the number of requests in flight that was asked for.
	Concurrency uint64
}

// Open is an open loop of one rate.
type Open struct {
	// Asked and Achieved are requests per second.
	Asked, Achieved float64
	// Shape is that of the gaps between arrivals: 1 for Poisson, the burstiness for gamma. 0: the gaps are no matter of
	// chance.
	Shape float64
}

// Requests counts measured requests.
type Requests struct {
	// Started, Completed and Failed are counts.
	Started, Completed, Failed uint64
	// NeverSent were owed and not sent. Nil: not known.
	NeverSent *uint64
}

// Times sum up a distribution, in milliseconds or in the unit of its values.
type Times struct {
	// Count is the number of values.
	Count uint64
	// Mean and Std are exact.
	Mean, Std float64
	// P50, P95 and P99 are percentiles of the merged histogram.
	P50, P95, P99 float64
}

// sum is that of the values.
func (t *Times) sum() float64 { return t.Mean * float64(t.Count) }

// Streams counts frames, and how completed answers came.
type Streams struct {
	// Frames may carry a token; those of failed requests count too.
	Frames uint64
	// CoalescedReads held more than one of them.
	CoalescedReads uint64
	// UnstampedFrames are timed by the program's clock.
	UnstampedFrames uint64
	// Whole answers came as one body. InOneFrame and InOneRead came at once, though they had several tokens.
	Whole, InOneFrame, InOneRead uint64
	// Undecided answers have frames of which it is not known whether they carried a token.
	Undecided uint64
	// OutputTokens are those of completed requests, TokenFrames the frames that they came in.
	OutputTokens, TokenFrames uint64
	// TextBytes are those of their text.
	TextBytes uint64
	// HiddenReasoning are output tokens of reasoning that was not streamed, by usage.
	HiddenReasoning uint64
	// HeadTokens are those of the first token frame of WithHead requests, by running usage.
	HeadTokens, WithHead uint64
}

// Hiccup is the second with the most frames that came in one read with the one before.
type Hiccup struct {
	// Second of the stage, from 0.
	Second uint32
	// Frames that came in one read with the one before, in it and in the whole stage.
	Here, All uint64
}

// Lengths counts completed requests.
type Lengths struct {
	// ISLMissed had a prompt of another length than asked, by the server's usage; ISLFar by more than 1 % and a token.
	ISLMissed, ISLFar uint64
	// ISLCompared are those of which both lengths are known.
	ISLCompared uint64
	// OSLMissed had an output of another length than asked.
	OSLMissed uint64
	// WithoutUsage had no usage from the server.
	WithoutUsage uint64
	// Exact says whether the server was asked for outputs of exact length. Nil: not known.
	Exact *bool
}

// share is part of whole, 0 of none.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
