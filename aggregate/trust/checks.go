package trust

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/measure"
)

// check is a check and its remedy.
type check struct {
	name   string
	judge  func(Evidence) (Check, bool)
	remedy string // what to do if it fails, in a line
}

// checks are all checks, in the order in which they are shown.
var checks = []check{
	{"measured", measured, "See the errors: the target, the model or the API key may be wrong."},
	{"completeness", completeness, "Run the stage again to its end; if it failed, fix the cause first."},
	{"errors", errors, "Lower the load, or fix what the errors report: the other requests had a lighter load."},
	{"never_sent", neverSent, "Give the run more agents or cores, or a lower rate."},
	{"broken_sessions", brokenSessions,
		"Fix what the errors report, or lower the load: a request that fails ends what waits for it in its session."},
	{"send_delay", sendDelay,
		"Give the run more agents or cores, keep other work off them (or run as root, for real-time scheduling), or lower the load."},
	{"receive_lag", receiveLag, "Give the run more agents or cores: they are near what they can read."},
	{"stamps", stamps, "Run the agents on Linux, where the kernel timestamps received data, or keep them far from busy."},
	{"coalescing", coalescing,
		"Check whether a proxy or the server bundles frames; otherwise give the run more agents or cores."},
	{"identity", identity, "Please report this: the sums must agree whatever the server does."},
	{"streaming", streaming, "Have the server answer as requested: a proxy, its API or a parser of reasoning or tools may hold streams back."},
	{"tokens_per_frame", tokensPerFrame,
		"Have the server send a frame for every token or two; otherwise use only E2E and throughput."},
	{"frames_per_token", framesPerToken,
		"Check how the server, or a proxy in front of it, counts tokens in its usage, and what splits frames."},
	{"hidden_tokens", hiddenTokens,
		"Have the server stream its reasoning, or switch reasoning off: TTFT and TPOT do not see hidden tokens."},
	{"text", text, "Check whether the server counts tokens in its usage that it does not stream."},
	{"undecided", undecided, "Request running usage (running_usage: always) if the server supports it."},
	{"bunching", bunching, "Check what bundles frames on the way from the engine: a proxy's buffer, compression, Nagle."},
	{"peak", peak, "Do not use the peak: check whether tokens came in bursts that no stream can produce."},
	{"concurrency", concurrency, "Check whether agents or the server limit connections."},
	{"rate", rate, "Give the stage more requests, or the run more agents if they are late."},
	{"endpoints", endpoints, "Check the plan's balance, and whether the endpoint is running."},
	{"starts", starts, "Check the agents' clocks and their network to the coordinator."},
	{"isl", isl, "Set tokenizer to server, usage or file:PATH, so that prompts get their exact length."},
	{"osl", osl, "Check whether the server honours ignore_eos and min_tokens, or set exact_output: never."},
	{"usage", usage, "Find out why some answers had no usage: several servers behind one name?"},
	{"models", models, "Have a router or gateway send all requests to one model, or compare the models one by one."},
	{"prefix_cache", prefixCache, "Use another seed for each run, or cache_busting: request."},
}

// remedyAgentLost is the remedy of completeness if an agent was lost.
const remedyAgentLost = "Run the stage again; on_agent_loss: reassign keeps the load whole when an agent is lost."

// Limits of shares, from 0 to 1.
var (
	errorLimits     = limits{suspect: 0.01, invalid: 0.1}
	neverSentLimits = limits{suspect: 0.001, invalid: 0.05}
	streamingLimits = limits{suspect: 0.01, invalid: 0.1}
	hiddenLimits    = limits{suspect: 0.01, invalid: 0.1}
	// frameLimits are limits of the tokens per frame of the median request. vLLM's --stream-interval 8 is within them.
	frameLimits = limits{suspect: 10, invalid: 32}
)

const (
	// stampLimit is the share of frames that may lack the kernel's timestamp, and the share that may be read together
	// with the frame before.
	stampLimit = 0.001
	// hiccupLimit is the share of all frames of the stage that may be read together with the frame before in a single
	// second.
	hiccupLimit = 0.01
	// fewRequests is the number of requests below which fewer than three are above p99.
	fewRequests = 200
	// lengthLimit is the share of requests that may have another length than the one asked for.
	lengthLimit = 0.01
	// modelLimit is the share of answers that may name another model than most do.
	modelLimit = 0.001
	// cacheLimit is by how much the cached share of the prompts' tokens may exceed the share that the prompts have in
	// common.
	cacheLimit = 0.01
)

// measured fails if no request completed: then there is nothing to believe.
func measured(e Evidence) (Check, bool) {
	if !e.Ended {
		return unknown()
	}
	none := 0.0
	if e.Counts[measure.Completed] == 0 {
		none = 1
	}
	return limits{}.held(none, "%d requests completed", e.Counts[measure.Completed])
}

// completeness fails if the result lacks something, and says what.
func completeness(e Evidence) (Check, bool) {
	if !e.Ended {
		return unknown()
	}
	if len(e.Missing) == 0 {
		return suspect(0, 0, "nothing is missing")
	}
	c, known := suspect(0, float64(len(e.Missing)), "%s", strings.Join(e.Missing, "; "))
	if e.AgentLost {
		c.Remedy = new(remedyAgentLost)
	}
	return c, known
}

// errors fails if many requests failed: a server that fails requests has less to do, so the latencies of the others are
// those of a lighter load.
func errors(e Evidence) (Check, bool) {
	ended := e.Counts[measure.Completed] + e.Counts[measure.Failed]
	if ended == 0 {
		return unknown()
	}
	failed := e.Counts[measure.Failed]
	return errorLimits.held(share(failed, ended), "%d of %d requests failed", failed, ended)
}

// neverSent fails if many due arrivals were not sent: then the load was not the one in the plan. The notes say what
// max_in_flight held back until the end. What waited for a request that failed is the server's fault: brokenSessions.
func neverSent(e Evidence) (Check, bool) {
	if e.NeverSent == nil || !e.Ended || e.MaxInFlight > 0 {
		return unknown()
	}
	late := *e.NeverSent - e.afterFailure()
	return neverSentLimits.held(share(late, *e.NeverSent+e.Counts[measure.Started]),
		"%d requests were due and never sent", late)
}

// brokenSessions fails if many requests were not sent because one of their session failed that they waited for: the
// server had less work than the plan asks for.
func brokenSessions(e Evidence) (Check, bool) {
	broken := e.afterFailure()
	if !e.Ended || broken == 0 {
		return unknown()
	}
	return errorLimits.held(share(broken, *e.NeverSent+e.Counts[measure.Started]),
		"%d requests were not sent because a request of their session failed that they waited for", broken)
}

// sendDelay fails if agents send late, which changes the load. The budget is 5 % of the median TTFT, and at least 5 ms.
// More than five times the budget is invalid. With few requests, p99 is only one or two of them. So that a single
// hiccup of the machine does not decide, p95 is compared instead.
func sendDelay(e Evidence) (Check, bool) {
	if e.Summaries[metricSendDelay] == nil {
		return unknown()
	}
	budget := 5.0
	if e.Summaries[metricTTFT] != nil {
		budget = max(budget, 0.05*e.Summaries[metricTTFT].P50)
	}
	name, late := "p99", e.Summaries[metricSendDelay].P99
	if e.Summaries[metricSendDelay].Count < fewRequests {
		name, late = "p95", e.Summaries[metricSendDelay].P95
	}
	return limits{budget, 5 * budget}.held(late, "send delay %s %.2f ms (budget %.2f ms)", name, late, budget)
}

// receiveLag fails if agents read late. With the kernel's timestamps the times are still right, but the agent is near
// its limit. The budget is half the median gap between tokens, and at least 20 ms: above it, reads start to contain
// several frames. With the times of packets such frames keep their own times; what remains is that a slot learns later
// that its request has ended, which may take a hundredth of the median request.
func receiveLag(e Evidence) (Check, bool) {
	if e.Summaries[metricReceiveLag] == nil {
		return unknown()
	}
	budget := 20.0
	if e.Summaries[metricITL] != nil {
		budget = max(budget, e.Summaries[metricITL].P50/2)
	}
	if e.Summaries[metricE2E] != nil && e.timedByPacket() >= 1-stampLimit {
		budget = max(budget, e.Summaries[metricE2E].P50/100)
	}
	lag := e.Summaries[metricReceiveLag].P99
	return suspect(budget, lag, "receive lag p99 %.2f ms (budget %.2f ms)", lag, budget)
}

// stamps fails if many frames lack the kernel's timestamp: they have the program's time, which is as late as the
// program is.
func stamps(e Evidence) (Check, bool) {
	if e.Counts[measure.Frames] == 0 {
		return unknown()
	}
	part := share(e.Counts[measure.UnstampedFrames], e.Counts[measure.Frames])
	if by := e.timedByPacket(); by > 0 {
		return suspect(stampLimit, part, "%.2f %% of the frames have no kernel timestamp, %.2f %% have the times of "+
			"their packets", 100*part, 100*by)
	}
	return suspect(stampLimit, part, "%.2f %% of the frames have no kernel timestamp", 100*part)
}

// timedByPacket returns the share of frames with the time of the packet that carried their last byte.
func (e *Evidence) timedByPacket() float64 {
	return share(e.Counts[measure.PacketFrames], e.Counts[measure.Frames])
}

// coalescing fails if many frames are read together: of several frames in one read, only the last has its own time. The
// worst second counts as a single hiccup if it has only a small part of all frames: then the check reports it, and the
// rest of the stage decides. Of answers in one piece the times of single frames are not used.
func coalescing(e Evidence) (Check, bool) {
	if e.Counts[measure.Frames] == 0 || e.Whole {
		return unknown()
	}
	together := max(e.Counts[measure.CoalescedReads], e.withoutOwnRead())
	part := share(together, e.Counts[measure.Frames])
	h := e.Hiccup
	if part <= stampLimit || h == nil || h.All == 0 {
		return suspect(stampLimit, part, "%.2f %% of the frames were read together with the previous frame", 100*part)
	}
	here := uint64(share(h.Here, h.All)*float64(together) + 0.5)
	if share(here, e.Counts[measure.Frames]) > hiccupLimit {
		return suspect(stampLimit, part, "%.2f %% of the frames were read together with the previous frame", 100*part)
	}
	rest := share(together-here, e.Counts[measure.Frames])
	return suspect(stampLimit, rest,
		"%.2f %% of the frames were read together with the previous frame, not counting %d in second %d (a hiccup)",
		100*rest, here, h.Second)
}

// withoutOwnRead returns the number of frames that were read together with the frame before. Each stamped read that
// ends a frame has one receive lag, so these are the frames in excess of the receive lags. withoutOwnRead returns 0 if
// that is not known because no read is stamped.
func (e *Evidence) withoutOwnRead() uint64 {
	if e.Summaries[metricReceiveLag] == nil {
		return 0
	}
	known := e.Counts[measure.UnstampedFrames] + e.Summaries[metricReceiveLag].Count
	return e.Counts[measure.Frames] - min(e.Counts[measure.Frames], known)
}

// identity fails if the sum of all gaps is not the time from the first to the last token of all requests: then
// something was not counted.
func identity(e Evidence) (Check, bool) {
	e2e, ttft := e.Summaries[metricE2E], e.Summaries[metricTTFT]
	if e2e == nil || ttft == nil || e2e.Count != ttft.Count {
		return unknown() // some answers were not streams, and have no TTFT
	}
	gaps := 0.0
	if e.Summaries[metricITL] != nil {
		gaps = sum(e.Summaries[metricITL])
	}
	off := math.Abs(sum(e2e)-sum(ttft)-gaps) / max(sum(e2e), 1e-9)
	const rounding = 1e-6
	return limits{rounding, rounding}.held(off, "E2E and TTFT + gaps between tokens differ by %.1g of their sum", off)
}

// streaming fails if many answers arrive all at once: they have no real TTFT and no gaps between tokens, whatever
// numbers are printed.
func streaming(e Evidence) (Check, bool) {
	if e.Counts[measure.Completed] == 0 {
		return unknown()
	}
	c, all := &e.Counts, e.Counts[measure.Completed]
	if e.Whole {
		return streamed(c)
	}
	part := min(1, share(c[measure.WholeAnswers]+c[measure.InOneFrame]+c[measure.InOneRead], all))
	switch max(c[measure.WholeAnswers], c[measure.InOneFrame], c[measure.InOneRead]) {
	case 0:
		return streamingLimits.held(part, "every answer of several tokens came as a stream")
	case c[measure.WholeAnswers]:
		return streamingLimits.held(part, "%d of %d answers came as one body: the server does not stream",
			c[measure.WholeAnswers], all)
	case c[measure.InOneFrame]:
		return streamingLimits.held(part,
			"%d of %d answers of several tokens by usage came in 1 frame%s: the server does not stream token by "+
				"token, or hides reasoning", c[measure.InOneFrame], all, example(c))
	default:
		return streamingLimits.held(part, "all tokens of %d of %d answers came in one write: they were held back",
			c[measure.InOneRead], all)
	}
}

// streamed fails if many answers were streams although the plan asks for answers in one piece: then the server did
// other work than the plan says.
func streamed(c *measure.Counts) (Check, bool) {
	n, all := c[measure.StreamedAnswers], c[measure.Completed]
	if n == 0 {
		return streamingLimits.held(0, "every answer came in one piece, as requested")
	}
	return suspect(streamingLimits.suspect, share(n, all),
		"%d of %d answers were streams although the target asks for answers in one piece", n, all)
}

// example returns the mean number of tokens per answer, in words.
func example(c *measure.Counts) string {
	return fmt.Sprintf(" (%.0f tokens on average)", share(c[measure.OutputTokens], c[measure.Completed]))
}

// tokensPerFrame fails if frames carry many tokens, or if tokens are not streamed at all: TPOT is calculated from the
// tokens by usage, and is then not the time between tokens of a stream.
func tokensPerFrame(e Evidence) (Check, bool) {
	if e.Summaries[metricTokensPerFrame] == nil || e.Counts[measure.WithoutUsage] == e.Counts[measure.Completed] {
		return unknown()
	}
	p50 := e.Summaries[metricTokensPerFrame].P50
	words := fmt.Sprintf("%.1f tokens per frame", p50)
	if p50 > frameLimits.suspect && e.Counts[measure.Completed] > 0 {
		completed := e.Counts[measure.Completed]
		words = fmt.Sprintf("%.0f tokens by usage came in %.1f frames: the server does not stream token by token, "+
			"or hides reasoning", share(e.Counts[measure.OutputTokens], completed),
			share(e.Counts[measure.TokenFrames], completed))
		if tpot, itl := e.Summaries[metricTPOT], e.Summaries[metricITL]; tpot != nil && itl != nil {
			words += fmt.Sprintf("; TPOT %.2f ms where frames are %.2f ms apart", tpot.P50, itl.P50)
		}
	}
	return frameLimits.held(p50, "%s", words)
}

// framesPerToken fails if usage counts fewer tokens than frames with a token arrived. A frame carries a token at least,
// so usage is too low, and TPOT and throughput are wrong, or something splits frames, and ITL is wrong.
func framesPerToken(e Evidence) (Check, bool) {
	c := &e.Counts
	if c[measure.OutputTokens] == 0 || c[measure.TokenFrames] == 0 || c[measure.WithoutUsage] > 0 {
		return unknown()
	}
	const most = 1.25 // a tool call may begin with a frame that has only its name, and no token of its own
	frames := share(c[measure.TokenFrames], c[measure.OutputTokens])
	return suspect(most, frames, "%.2f frames with a token for each token by usage", frames)
}

// hiddenTokens fails if many tokens were generated but not streamed: they are in no gap between tokens, but in the
// divisor of TPOT.
func hiddenTokens(e Evidence) (Check, bool) {
	c := &e.Counts
	if c[measure.OutputTokens] == 0 || c[measure.WithoutUsage] > 0 {
		return unknown()
	}
	reasoning, head := share(c[measure.HiddenReasoningTokens], c[measure.OutputTokens]), headShare(c)
	if reasoning >= head {
		return hiddenLimits.held(reasoning, "%.1f %% of the output tokens were reasoning that was not streamed",
			100*reasoning)
	}
	return hiddenLimits.held(head, "%.1f %% of the output tokens came before the first frame: they were not streamed",
		100*head)
}

// headShare returns by how much the first token frames exceed the usual tokens per frame, as a share of all output
// tokens, by running usage.
func headShare(c *measure.Counts) float64 {
	rest := float64(c[measure.TokenFrames]) - float64(c[measure.WithHeadTokens])
	if c[measure.WithHeadTokens] == 0 || rest <= 0 {
		return 0
	}
	usual := max(1, (float64(c[measure.OutputTokens])-float64(c[measure.HeadTokens]))/rest)
	excess := float64(c[measure.HeadTokens]) - usual*float64(c[measure.WithHeadTokens])
	return max(0, excess) / float64(c[measure.OutputTokens])
}

// text fails if there is too little text for the number of tokens. A token has about four bytes of text, and hardly any
// text has fewer than 1.5 on average. Digits have one byte each, and an engine without a tokenizer sends no text at
// all.
func text(e Evidence) (Check, bool) {
	c := &e.Counts
	if c[measure.OutputTokens] == 0 || c[measure.TextBytes] == 0 || c[measure.WithoutUsage] > 0 {
		return unknown()
	}
	const least = 1.5 // bytes per token
	bytes := share(c[measure.TextBytes], c[measure.OutputTokens])
	return suspect(1-least/typicalBytes, 1-bytes/typicalBytes, "%.1f bytes of text per token", bytes)
}

// typicalBytes is how many bytes of text a token has with most vocabularies and texts.
const typicalBytes = 4.0

// undecided fails if it is often not known whether a frame carried a token: then a gap may be missing, or may be one
// too many.
func undecided(e Evidence) (Check, bool) {
	if e.Counts[measure.Completed] == 0 {
		return unknown()
	}
	part := share(e.Counts[measure.Undecided], e.Counts[measure.Completed])
	return suspect(lengthLimit, part,
		"in %.1f %% of the answers nothing shows which frames without text carried a token", 100*part)
}

// bunching fails if the median gap is far below the time per token: then frames arrive in bunches because a proxy or
// the server holds them back, and gaps and TTFT show that delay.
func bunching(e Evidence) (Check, bool) {
	itl, tpot := e.Summaries[metricITL], e.Summaries[metricTPOT]
	if itl == nil || tpot == nil {
		return unknown()
	}
	if tpot.P50 <= 0 {
		return limits{}.held(1, "the median TPOT is 0: tokens came all at once")
	}
	const least = 0.1
	return limits{1 - least, 1}.held(1-min(1, itl.P50/tpot.P50),
		"the median gap between frames is %.3f ms, the median time per token %.3f ms", itl.P50, tpot.P50)
}

// peak fails if the peak token throughput is impossible for an engine. Peak concurrency / mean TPOT is the rate at
// which the streams can bring tokens, one token per TPOT each. More than ten times that rate is not the engine's doing.
func peak(e Evidence) (Check, bool) {
	tpot := e.Summaries[metricTPOT]
	if e.PeakTokens == nil || e.PeakConcurrency == nil || tpot == nil || *e.PeakConcurrency == 0 || tpot.Mean <= 0 {
		return unknown()
	}
	most := float64(*e.PeakConcurrency) * 1000 / tpot.Mean
	return suspect(10, *e.PeakTokens/most, "the peak is %.0f tokens/s, but %d streams at %.2f ms per token deliver %.0f",
		*e.PeakTokens, *e.PeakConcurrency, tpot.Mean, most)
}

// concurrency fails if a closed loop never had all its requests in flight: then the load was not the one in the plan.
func concurrency(e Evidence) (Check, bool) {
	if e.Closed == nil || e.PeakConcurrency == nil || !e.Ended || e.Counts[measure.Started] < e.Closed.Concurrency {
		return unknown()
	}
	short := 1 - min(1, share(*e.PeakConcurrency, e.Closed.Concurrency))
	return suspect(0.01, short, "at most %d requests were in flight, planned %d", *e.PeakConcurrency,
		e.Closed.Concurrency)
}

// rate fails if an open loop did not send at the rate of the plan. The rate of a random process differs by chance: for
// n arrivals whose gaps have the shape k, its relative standard deviation is 1/sqrt(n k). Four standard deviations are
// allowed. A load of which max_in_flight held something back has another rate by plan.
func rate(e Evidence) (Check, bool) {
	if e.Open == nil || heldBack(e) != "" || !e.Ended || e.Counts[measure.Started] < 2 || len(e.Missing) > 0 {
		return unknown()
	}
	const least = 0.02
	allowed := least
	if e.Open.Shape > 0 {
		allowed = max(least, 4/math.Sqrt(float64(e.Counts[measure.Started])*e.Open.Shape))
	}
	off := math.Abs(e.Open.Achieved/e.Open.Asked - 1)
	return limits{allowed, 5 * allowed}.held(off, "sent %.4g requests/s, planned %.4g", e.Open.Achieved,
		e.Open.Asked)
}

// endpointPatience is the number of requests per endpoint that must have started before an endpoint without requests
// counts as idle.
const endpointPatience = 20

// endpoints fails if one of several endpoints gets no requests: then the target is smaller than in the plan.
func endpoints(e Evidence) (Check, bool) {
	n := uint64(len(e.Endpoints))
	if n < 2 || e.Counts[measure.Started] < endpointPatience*n {
		return unknown()
	}
	idle := slices.DeleteFunc(slices.Clone(e.Endpoints), func(started uint64) bool { return started > 0 })
	return suspect(0, float64(len(idle)), "%d of %d endpoints got no request", len(idle), n)
}

// starts fails if agents start at different times: then the windows of one second that are merged from them are
// blurred.
func starts(e Evidence) (Check, bool) {
	if len(e.Starts) < 2 {
		return unknown()
	}
	const tenthOfWindow = 100
	worst := slices.Max(e.Starts)
	return suspect(tenthOfWindow, worst, "an agent started up to %.1f ms off, including its clock's uncertainty", worst)
}

// isl fails if many prompts have another length than the one asked for: they are another workload. A difference of one
// token, or of 1 %, does not count.
func isl(e Evidence) (Check, bool) {
	if e.Counts[measure.ISLCompared] == 0 {
		return unknown()
	}
	compared := e.Counts[measure.ISLCompared]
	far, missed := share(e.Counts[measure.ISLFar], compared), share(e.Counts[measure.ISLMissed], compared)
	return suspect(lengthLimit, far,
		"%.1f %% of the prompts were off by more than 1 %% of the requested length, %.1f %% by a token or more",
		100*far, 100*missed)
}

// osl fails if the server was asked for outputs of an exact length, and many have another: they are another workload.
func osl(e Evidence) (Check, bool) {
	if e.Counts[measure.Completed] == 0 || e.ExactOutput == nil || !*e.ExactOutput {
		return unknown()
	}
	part := share(e.Counts[measure.OSLMissed], e.Counts[measure.Completed])
	return suspect(lengthLimit, part, "%.1f %% of the outputs did not have the requested length", 100*part)
}

// usage fails if tokens are counted by the server for some requests and by frames for others: the sum is not
// consistent.
func usage(e Evidence) (Check, bool) {
	if e.Counts[measure.Completed] == 0 {
		return unknown()
	}
	without := share(e.Counts[measure.WithoutUsage], e.Counts[measure.Completed])
	if without == 1 {
		return suspect(0.5, 0, "output tokens are counted in frames: the server reports no usage")
	}
	return suspect(0, without, "%d of %d requests had no usage: their tokens are counted in frames",
		e.Counts[measure.WithoutUsage], e.Counts[measure.Completed])
}

// prefixCache fails if the server's cache has prompts that the plan meant to be new: they are then cheaper than they
// should be.
func prefixCache(e Evidence) (Check, bool) {
	if e.CachedShare == nil || e.SharedShare == nil {
		return unknown()
	}
	return suspect(cacheLimit, *e.CachedShare-*e.SharedShare,
		"the server took %.1f %% of the prompts' tokens from its cache, the prompts share %.1f %%",
		100**e.CachedShare, 100**e.SharedShare)
}

// models fails if the answers to requests for one model name several: the numbers are then those of a mix.
func models(e Evidence) (Check, bool) {
	if len(e.Models) == 0 {
		return unknown()
	}
	worst, words := 0.0, "the answers to each model's requests name one model"
	for _, named := range e.Models {
		all := uint64(0)
		for _, m := range named {
			all += m.Requests
		}
		if part := share(all-named[0].Requests, all); part > worst {
			var list []string
			for _, m := range named {
				list = append(list, fmt.Sprintf("%d name %s (mean E2E %.4g ms)", m.Requests, m.Name, m.MeanE2EMs))
			}
			worst, words = part, fmt.Sprintf("of %d answers, %s", all, strings.Join(list, ", "))
		}
	}
	return suspect(modelLimit, worst, "%s", words)
}
