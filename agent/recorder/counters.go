package recorder

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// counter names one field of spatev1.Counters.
type counter int

const (
	started counter = iota
	completed
	failed
	cancelled
	unmeasuredStarted
	unmeasuredEnded
	inputTokens
	outputTokens
	tokenFrames
	tokensArrived
	withoutUsage
	islMissed
	oslMissed
	connections
	coalescedReads
	unstampedFrames
	good
	cachedTokens
	withCachedTokens
	sharedTokens
	unmeasuredTokensArrived
	islCompared
	counterCount
)

// counters are what spatev1.Counters holds, in a form that costs nothing to add up.
type counters [counterCount]uint64

func (c *counters) add(o *counters) {
	for i, n := range o {
		c[i] += n
	}
}

func (c *counters) proto() *spatev1.Counters {
	return &spatev1.Counters{
		Started:                 c[started],
		Completed:               c[completed],
		Failed:                  c[failed],
		Cancelled:               c[cancelled],
		UnmeasuredStarted:       c[unmeasuredStarted],
		UnmeasuredEnded:         c[unmeasuredEnded],
		InputTokens:             c[inputTokens],
		OutputTokens:            c[outputTokens],
		TokenFrames:             c[tokenFrames],
		TokensArrived:           c[tokensArrived],
		WithoutUsage:            c[withoutUsage],
		IslMissed:               c[islMissed],
		OslMissed:               c[oslMissed],
		Connections:             c[connections],
		CoalescedReads:          c[coalescedReads],
		UnstampedFrames:         c[unstampedFrames],
		Good:                    c[good],
		CachedTokens:            c[cachedTokens],
		WithCachedTokens:        c[withCachedTokens],
		SharedTokens:            c[sharedTokens],
		UnmeasuredTokensArrived: c[unmeasuredTokensArrived],
		IslCompared:             c[islCompared],
	}
}
