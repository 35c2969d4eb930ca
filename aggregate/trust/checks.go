package trust

import (
	"math"
	"slices"
	"strings"
)

// checks are all there are, in the order in which they are shown.
var checks = []struct {
	name  string
	judge func(Evidence) (Check, bool)
}{
	{"measured", measured},
	{"completeness", completeness},
	{"errors", errors},
	{"never_sent", neverSent},
	{"send_delay", sendDelay},
	{"receive_lag", receiveLag},
	{"stamps", stamps},
	{"coalescing", coalescing},
	{"identity", identity},
	{"bunching", bunching},
	{"concurrency", concurrency},
	{"endpoints", endpoints},
	{"starts", starts},
	{"isl", isl},
	{"osl", osl},
	{"usage", usage},
	{"prefix_cache", prefixCache},
}

// Limits of shares, as parts of 1.
var (
	errorLimits     = limits{suspect: 0.01, invalid: 0.1}
	neverSentLimits = limits{suspect: 0.001, invalid: 0.05}
)

const (
	// stampLimit is the share of frames that may lack the kernel's time, and that may come several in one read.
	stampLimit = 0.001
	// lengthLimit is the share of requests that may be of another length than asked.
	lengthLimit = 0.01
	// cacheLimit is by how much the server's cache may have more of the prompts than they have in common.
	cacheLimit = 0.01
)

// measured: without one completed request there is nothing to believe.
func measured(e Evidence) (Check, bool) {
	if !e.Ended {
		return unknown()
	}
	none := 0.0
	if e.Requests.Completed == 0 {
		none = 1
	}
	return limits{}.held(none, "%d requests completed", e.Requests.Completed)
}

// completeness: a result that lacks something says what.
func completeness(e Evidence) (Check, bool) {
	if !e.Ended {
		return unknown()
	}
	if len(e.Missing) == 0 {
		return suspect(0, 0, "nothing is missing")
	}
	return suspect(0, float64(len(e.Missing)), "%s", strings.Join(e.Missing, "; "))
}

// errors: a server that fails much has less to do, so the latencies of the rest are another load's.
func errors(e Evidence) (Check, bool) {
	ended := e.Requests.Completed + e.Requests.Failed
	if ended == 0 {
		return unknown()
	}
	return errorLimits.held(share(e.Requests.Failed, ended), "%d of %d requests failed", e.Requests.Failed, ended)
}

// neverSent: arrivals that were owed and not sent make the load another one.
func neverSent(e Evidence) (Check, bool) {
	if e.Requests.NeverSent == nil || !e.Ended {
		return unknown()
	}
	never := *e.Requests.NeverSent
	return neverSentLimits.held(share(never, never+e.Requests.Started), "%d requests were owed and never sent", never)
}

// sendDelay: a client that sends late shapes the load itself. The budget is 5 % of the median TTFT and at least 5 ms; five times that is too much.
func sendDelay(e Evidence) (Check, bool) {
	if e.SendDelay == nil {
		return unknown()
	}
	budget := 5.0
	if e.TTFT != nil {
		budget = max(budget, 0.05*e.TTFT.P50)
	}
	return limits{budget, 5 * budget}.held(e.SendDelay.P99, "send delay p99 %.2f ms (budget %.2f ms)", e.SendDelay.P99, budget)
}

// receiveLag: where the kernel stamps what comes, a client that reads late still has the right times, but it is near its end. The budget is half a
// median gap between tokens and at least 20 ms: beyond it frames begin to come several in one read.
func receiveLag(e Evidence) (Check, bool) {
	if e.ReceiveLag == nil {
		return unknown()
	}
	budget := 20.0
	if e.ITL != nil {
		budget = max(budget, e.ITL.P50/2)
	}
	return suspect(budget, e.ReceiveLag.P99, "receive lag p99 %.2f ms (budget %.2f ms)", e.ReceiveLag.P99, budget)
}

// stamps: a frame without the kernel's time has the program's, which is late by as much as the program is.
func stamps(e Evidence) (Check, bool) {
	if e.Streams.TokenFrames == 0 {
		return unknown()
	}
	part := share(e.Streams.UnstampedFrames, e.Streams.TokenFrames)
	return suspect(stampLimit, part, "%.2f %% of the frames are timed by the program's clock", 100*part)
}

// coalescing: of several frames in one read only the last has its own time.
func coalescing(e Evidence) (Check, bool) {
	if e.Streams.TokenFrames == 0 {
		return unknown()
	}
	part := share(max(e.Streams.CoalescedReads, e.withoutOwnRead()), e.Streams.TokenFrames)
	return suspect(stampLimit, part, "%.2f %% of the frames came in one read with the one before", 100*part)
}

// withoutOwnRead is the number of frames that came in one read with the one before. Each stamped read that ends a frame has one receive lag, so
// that the frames beyond those are the ones; a read may hold any number of them. 0: no read is stamped, so that this cannot be known.
func (e *Evidence) withoutOwnRead() uint64 {
	if e.ReceiveLag == nil {
		return 0
	}
	known := e.Streams.UnstampedFrames + e.ReceiveLag.Count
	return e.Streams.TokenFrames - min(e.Streams.TokenFrames, known)
}

// identity: the time from the first to the last token of all requests is the sum of all gaps, or something was not counted.
func identity(e Evidence) (Check, bool) {
	if e.E2E == nil || e.TTFT == nil || e.E2E.Count != e.TTFT.Count {
		return unknown() // some answers were no streams, and have no time to the first token
	}
	gaps := 0.0
	if e.ITL != nil {
		gaps = e.ITL.sum()
	}
	off := math.Abs(e.E2E.sum()-e.TTFT.sum()-gaps) / max(e.E2E.sum(), 1e-9)
	const rounding = 1e-6
	return limits{rounding, rounding}.held(off, "E2E and TTFT + gaps between tokens differ by %.1g of their sum", off)
}

// bunching: a median gap far below the time of a token says that frames come in bunches: a proxy or the server holds them back, and gaps and
// TTFT tell of that.
func bunching(e Evidence) (Check, bool) {
	if e.ITL == nil || e.TPOT == nil || e.TPOT.P50 <= 0 {
		return unknown()
	}
	const least = 0.1
	return suspect(1-least, 1-min(1, e.ITL.P50/e.TPOT.P50), "median gap between frames %.3f ms at %.3f ms a token", e.ITL.P50, e.TPOT.P50)
}

// concurrency: a closed loop that never had its requests in flight is another load.
func concurrency(e Evidence) (Check, bool) {
	if e.Concurrency == nil || e.PeakConcurrency == nil || !e.Ended || e.Requests.Started < *e.Concurrency {
		return unknown()
	}
	short := 1 - min(1, share(*e.PeakConcurrency, *e.Concurrency))
	return suspect(0.01, short, "at most %d requests were in flight, asked for were %d", *e.PeakConcurrency, *e.Concurrency)
}

// endpointPatience is how many requests an endpoint must have been due before it is said that it got none.
const endpointPatience = 20

// endpoints: a target of several of which one gets nothing is a smaller target.
func endpoints(e Evidence) (Check, bool) {
	n := uint64(len(e.Endpoints))
	if n < 2 || e.Requests.Started < endpointPatience*n {
		return unknown()
	}
	idle := slices.DeleteFunc(slices.Clone(e.Endpoints), func(started uint64) bool { return started > 0 })
	return suspect(0, float64(len(idle)), "%d of %d endpoints got no request", len(idle), n)
}

// starts: agents that begin apart blur the windows of a second that are put together of them.
func starts(e Evidence) (Check, bool) {
	if len(e.Starts) < 2 {
		return unknown()
	}
	const tenthOfWindow = 100
	worst := slices.Max(e.Starts)
	return suspect(tenthOfWindow, worst, "an agent's start was up to %.1f ms off, clocks' uncertainty included", worst)
}

// isl: prompts of another length are another workload.
func isl(e Evidence) (Check, bool) {
	if e.Lengths.ISLCompared == 0 {
		return unknown()
	}
	part := share(e.Lengths.ISLMissed, e.Lengths.ISLCompared)
	return suspect(lengthLimit, part, "%.1f %% of the prompts were not of the length asked", 100*part)
}

// osl: where the server was asked for an exact length, another one is another workload.
func osl(e Evidence) (Check, bool) {
	if e.Requests.Completed == 0 || e.Lengths.Exact == nil || !*e.Lengths.Exact {
		return unknown()
	}
	part := share(e.Lengths.OSLMissed, e.Requests.Completed)
	return suspect(lengthLimit, part, "%.1f %% of the outputs were not of the length asked", 100*part)
}

// usage: tokens counted for some requests by the server and for others by frames are no one count.
func usage(e Evidence) (Check, bool) {
	if e.Requests.Completed == 0 {
		return unknown()
	}
	without := share(e.Lengths.WithoutUsage, e.Requests.Completed)
	if without == 1 {
		return suspect(0.5, 0, "output tokens are counted in frames: the server tells no usage")
	}
	return suspect(0, without, "%d of %d requests had no usage: their tokens are counted in frames", e.Lengths.WithoutUsage, e.Requests.Completed)
}

// prefixCache: a cache that has prompts which the plan meant to be new makes them cheaper than they are.
func prefixCache(e Evidence) (Check, bool) {
	if e.CachedShare == nil || e.SharedShare == nil {
		return unknown()
	}
	return suspect(cacheLimit, *e.CachedShare-*e.SharedShare,
		"the server took %.1f %% of the prompts' tokens from its cache, %.1f %% were to be found there", 100**e.CachedShare, 100**e.SharedShare)
}
