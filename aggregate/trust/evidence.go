package trust

// Evidence is what a verdict is based on. Pointers are nil if the value is not known.
type Evidence struct {
	// Requests are the measured requests.
	Requests Requests
	// SendDelay, ReceiveLag, TTFT, TPOT, ITL and E2E are in milliseconds. Each read of token frames that has the
	// kernel's timestamp has one receive lag.
	SendDelay, ReceiveLag, TTFT, TPOT, ITL, E2E *Times
	// StartGap is the time between starts of one agent, in milliseconds.
	StartGap *Times
	// TokensPerFrame has one value per request.
	TokensPerFrame *Times
	// Streams counts frames, and how answers arrived.
	Streams Streams
	// Hiccup is the second in which most frames were read together with the frame before. Nil: not known, for example
	// while a stage is in progress.
	Hiccup *Hiccup
	// Lengths compares requested lengths with actual ones.
	Lengths Lengths
	// SharedShare is the share of the prompts' tokens that the workload repeats. CachedShare is the share that the
	// server took from its cache.
	SharedShare, CachedShare *float64
	// Missing is what a stage that has ended lacks, in words. Nil: the stage is in progress.
	Missing []string
	// Ended is true if the stage has ended. The fields below are known only then.
	Ended bool
	// Closed is the load of a closed loop that must have all its requests in flight all the time. Nil: another load.
	Closed *Closed
	// Open is the load of an open loop with one rate. Nil: another load.
	Open *Open
	// PeakConcurrency is the largest number of requests in flight.
	PeakConcurrency *uint64
	// PeakTokens is the largest number of output tokens in a second.
	PeakTokens *float64
	// Endpoints is the number of requests that started, by endpoint.
	Endpoints []uint64
	// Starts is, for each agent, the distance of its start from the armed start plus the clocks' uncertainty, in
	// milliseconds.
	Starts []float64
}

// Closed is a closed loop whose slots are never idle, by plan.
type Closed struct {
	// Concurrency is the number of requests in flight that the plan asks for.
	Concurrency uint64
}

// Open is an open loop with one rate.
type Open struct {
	// Asked and Achieved are the rates of the plan and of the stage, in requests per second.
	Asked, Achieved float64
	// Shape is the shape of the gaps between arrivals: 1 for Poisson, 0 if the gaps do not vary. See schedule.GapShape.
	Shape float64
}

// Requests counts measured requests.
type Requests struct {
	// Started, Completed and Failed are counts.
	Started, Completed, Failed uint64
	// NeverSent is the number of requests that were due and never sent. Nil: not known.
	NeverSent *uint64
}

// Times summarize a distribution, in milliseconds or in the unit of its values.
type Times struct {
	// Count is the number of values.
	Count uint64
	// Mean and Std are exact.
	Mean, Std float64
	// P50, P95 and P99 are percentiles of the merged histogram.
	P50, P95, P99 float64
}

// sum returns the sum of the values.
func (t *Times) sum() float64 { return t.Mean * float64(t.Count) }

// Streams counts frames, and how completed answers arrived.
type Streams struct {
	// Frames is the number of frames that may carry a token, including those of failed requests.
	Frames uint64
	// CoalescedReads is the number of reads that held more than one of these frames.
	CoalescedReads uint64
	// UnstampedFrames is the number of frames timed by the program's clock.
	UnstampedFrames uint64
	// Whole is the number of answers that arrived as one body. InOneFrame and InOneRead count streams of several tokens
	// or frames that arrived in one frame or in one read.
	Whole, InOneFrame, InOneRead uint64
	// Undecided is the number of answers with frames of which it is not known whether they carried a token.
	Undecided uint64
	// OutputTokens are the output tokens of completed requests. TokenFrames are the frames that carried them.
	OutputTokens, TokenFrames uint64
	// TextBytes are the bytes of text in these frames.
	TextBytes uint64
	// HiddenReasoning are output tokens of reasoning that was not streamed, by usage.
	HiddenReasoning uint64
	// HeadTokens are the tokens in the first token frames of WithHead requests, by running usage.
	HeadTokens, WithHead uint64
}

// Hiccup is the second in which most frames were read together with the frame before.
type Hiccup struct {
	// Second of the stage, from 0.
	Second uint32
	// Here and All count frames that were read together with the frame before: in this second, and in the whole stage.
	Here, All uint64
}

// Lengths counts completed requests.
type Lengths struct {
	// ISLMissed counts prompts whose length, by the server's usage, is not the one asked for. ISLFar counts those that
	// differ by more than 1 % and by more than a token.
	ISLMissed, ISLFar uint64
	// ISLCompared counts prompts of which both lengths are known.
	ISLCompared uint64
	// OSLMissed counts outputs whose length is not the one asked for.
	OSLMissed uint64
	// WithoutUsage counts requests without usage from the server.
	WithoutUsage uint64
	// Exact is true if the server was asked for outputs of exact length. Nil: not known.
	Exact *bool
}

// share returns part / whole, or 0 if whole is 0.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
