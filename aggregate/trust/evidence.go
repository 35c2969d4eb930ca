package trust

// Evidence is what a verdict rests on. Pointers are nil where nothing is known.
type Evidence struct {
	// Requests are the measured ones.
	Requests Requests
	// SendDelay, ReceiveLag, TTFT, TPOT, ITL and E2E are in milliseconds. Each read of token frames that the kernel stamped has one receive lag.
	SendDelay, ReceiveLag, TTFT, TPOT, ITL, E2E *Times
	// Streams says how frames came.
	Streams Streams
	// Lengths compares what was asked for with what came.
	Lengths Lengths
	// SharedShare and CachedShare are the parts of the prompts' tokens that the workload repeats, and that the server took from its cache.
	SharedShare, CachedShare *float64
	// Missing says what a stage that has ended lacks, in words. Nil: it goes on.
	Missing []string
	// Ended says whether the stage has ended. What follows is known then only.
	Ended bool
	// Concurrency is the number of requests in flight that a closed loop without phases asked for. Nil: it is another load.
	Concurrency *uint64
	// PeakConcurrency is the most that there were.
	PeakConcurrency *uint64
	// Endpoints has the requests that started at each endpoint.
	Endpoints []uint64
	// Starts has how far each agent's start was off the armed one, the clocks' uncertainty added, in milliseconds.
	Starts []float64
}

// Requests counts measured requests.
type Requests struct {
	// Started, Completed and Failed are counts.
	Started, Completed, Failed uint64
	// NeverSent were owed and not sent. Nil: not known.
	NeverSent *uint64
}

// Times sum up a distribution, in milliseconds.
type Times struct {
	// Count is the number of values.
	Count uint64
	// Mean is exact.
	Mean float64
	// P50 and P99 are percentiles of the merged histogram.
	P50, P99 float64
}

// sum is that of the values.
func (t *Times) sum() float64 { return t.Mean * float64(t.Count) }

// Streams counts frames.
type Streams struct {
	// TokenFrames have token text.
	TokenFrames uint64
	// CoalescedReads held more than one of them.
	CoalescedReads uint64
	// UnstampedFrames are timed by the program's clock.
	UnstampedFrames uint64
}

// Lengths counts completed requests.
type Lengths struct {
	// ISLMissed had a prompt of another length than asked, by the server's usage.
	ISLMissed uint64
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
