package trust

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/measure"
)

// check is a check and its remedy.
type check struct {
	name    string
	judge   func(Evidence) (Check, bool)
	touches []string // numbers that are doubtful if it fails, by their names in results.json
	remedy  string   // what to do if it fails, in a line
}

// Numbers that checks touch, by their names in results.json.
const (
	ttft, tpot, itl, e2e = "ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"
	requestRate          = "request_throughput"
	tokenRate            = "output_token_throughput"
)

var (
	everything  = []string{requestRate, tokenRate, e2e, ttft, tpot, itl}
	throughputs = []string{requestRate, tokenRate}
	latencies   = []string{e2e, ttft, tpot, itl}
)

// checks are all checks, in the order in which they are shown.
var checks = []check{
	{"measured", measured, everything, "See the errors: the target, the model or the API key may be wrong."},
	{"completeness", completeness, everything, "Run the stage again to its end; if it failed, fix the cause first."},
	{"errors", errors, everything, "Fix what the errors report: the requests that completed had a lighter load."},
	{"never_sent", neverSent, everything, "Give the run more agents or cores, or a lower rate."},
	{"broken_sessions", brokenSessions, everything,
		"Fix what the errors report, or lower the load: a request that fails ends what waits for it in its session."},
	{"send_delay", sendDelay, latencies,
		"Give the run more agents or cores, keep other work off them (or run as root, for real-time scheduling), or lower the load."},
	{"frame_times", frameTimes, nil,
		"Give the agents more cores, or keep other work off them; on other systems than Linux no frame has the kernel's time."},
	{"identity", identity, latencies, "Please report this: the sums must agree whatever the server does."},
	{"streaming", streaming, []string{ttft, tpot, itl},
		"Have the server answer as requested (proxies and parsers hold streams back), or set the target's stream to what it does."},
	{"tokens_per_frame", tokensPerFrame, []string{tpot},
		"Have the server send a frame for every token or two; otherwise use only E2E and throughput."},
	{"frames_per_token", framesPerToken, []string{tokenRate, tpot, itl},
		"Check how the server, or a proxy in front of it, counts tokens in its usage, and what splits frames."},
	{"hidden_tokens", hiddenTokens, []string{ttft, tpot},
		"Have the server stream its reasoning, or switch reasoning off: TTFT and TPOT do not see hidden tokens."},
	{"text", text, []string{tokenRate, tpot}, "Check whether the server counts tokens in its usage that it does not stream."},
	{"undecided", undecided, []string{tpot, itl}, "Request running usage (running_usage: always) if the server supports it."},
	{"bunching", bunching, []string{ttft, itl}, "Check what bundles frames on the way from the engine: a proxy's buffer, compression, Nagle."},
	{"peak", peak, []string{"peak_output_token_throughput"},
		"Do not use the peak: check whether tokens came in bursts that no stream can produce."},
	{"concurrency", concurrency, everything, "Check whether agents or the server limit connections."},
	{"rate", rate, everything, "Give the stage more requests, or the run more agents if they are late."},
	{"endpoints", endpoints, everything, "Check the plan's balance, and whether the endpoint is running."},
	{"starts", starts, []string{"peak_output_token_throughput", "peak_concurrency", "steady"},
		"Check the agents' clocks and their network to the coordinator."},
	{"isl", isl, []string{requestRate, tokenRate, e2e, ttft},
		"Set tokenizer to server, usage or file:PATH (--set targets[0].tokenizer=usage), so that prompts get their exact length."},
	{"osl", osl, []string{requestRate, tokenRate, e2e},
		"Check whether the server honours ignore_eos and min_tokens, or set exact_output: never."},
	{"usage", usage, []string{tokenRate, tpot}, "Find out why some answers had no usage: several servers behind one name?"},
	{"models", models, everything, "Have a router or gateway send all requests to one model, or compare the models one by one."},
	{"answers", answers, everything,
		"See what the server computes otherwise under load, such as KV caches that it transfers: it may be fast and wrong."},
	{"prefix_cache", prefixCache, []string{requestRate, tokenRate, e2e, ttft}, "Use another seed for each run, or cache_busting: request."},
}

// Remedies of causes that the evidence names.
const (
	remedyAgentLost  = "Run the stage again; with on_agent_loss: reassign, other agents take over what a lost agent had to send."
	remedyNotStarted = "Fix what kept the stage from starting: completeness names it."
	remedyTakenOver  = "Run the stage again: an agent's load is missing until others took over or the stage ended."
	remedyUncounted  = "Set tokenizer to file:PATH, the model's tokenizer.json: the server cannot count the prompts."
	remedyFrames     = "Use only E2E and requests per second, unless the server can report usage: a frame is not a token."
	remedyCached     = "Look for what the server puts before each prompt, such as a system prompt: the prompts are unique already."
)

// remediesOfErrors are the remedies of the errors check, by the class of most failures or the start of its name.
var remediesOfErrors = []struct{ class, remedy string }{
	{"http_429", "Lower the load, or raise the limit of the server or gateway: it refuses requests beyond it."},
	{"http_401", "Say where the right API key is: --api-key env:NAME, or api_key in the plan."},
	{"http_404", "Correct the target's address, api or model: the server does not serve what requests ask for."},
	{"http_4", "Fix what the server refuses in the requests: its answers are among the errors."},
	{"http_5", "See the server's log for why it fails; if it fails only under load, lower the load."},
	{"connect", "Check that the server is running and accepts that many connections."},
	{"timeout", "Lower the load, or raise the timeouts in the plan."},
	{"cut_stream", "See the log of the server, and of a proxy in front of it, for why it ended answers early."},
}

// Limits of shares, from 0 to 1.
var (
	errorLimits     = limits{suspect: 0.01, invalid: 0.1}
	rateLimits      = limits{suspect: 0.02, invalid: 0.1}
	neverSentLimits = limits{suspect: 0.001, invalid: 0.05}
	streamingLimits = limits{suspect: 0.01, invalid: 0.1}
	hiddenLimits    = limits{suspect: 0.01, invalid: 0.1}
	// answerLimits are limits of the share of answers that surely are others than those of the quiet server.
	answerLimits = limits{suspect: 0, invalid: 0.01}
	// frameLimits are limits of the tokens per frame of the median request. vLLM's --stream-interval 8 is within them.
	frameLimits = limits{suspect: 10, invalid: 32}
)

const (
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
	switch {
	case !e.Ended:
		return unknown()
	case e.Counts[measure.Completed] > 0:
		return limits{}.held(0, "%d requests completed", e.Counts[measure.Completed])
	case e.Counts[measure.Failed] > 0:
		return failures(limits{}, e)
	}
	c, known := limits{}.held(1, "no request completed")
	if e.Counts[measure.Started] == 0 {
		c.Remedy = new(remedyNotStarted)
	}
	return c, known
}

// completeness fails if the result lacks something, and says what.
func completeness(e Evidence) (Check, bool) {
	switch {
	case len(e.Missing) > 0:
	case e.Ended:
		return suspect(0, 0, "nothing is missing")
	default:
		return unknown()
	}
	c, known := suspect(0, float64(len(e.Missing)), "%s", strings.Join(e.Missing, "; "))
	switch {
	case e.AgentLost && e.Reassigned:
		c.Remedy = new(remedyTakenOver)
	case e.AgentLost:
		c.Remedy = new(remedyAgentLost)
	}
	return c, known
}

// errors fails if many requests failed: a server that fails requests has less to do, so the latencies of the others are
// those of a lighter load. If none completed, measured says so.
func errors(e Evidence) (Check, bool) {
	if e.Counts[measure.Completed] == 0 {
		return unknown()
	}
	return failures(errorLimits, e)
}

// MostFrequent returns the class of most errors, the first by name if several have as many, or "" if there are none.
func MostFrequent(errors map[string]uint64) string { return append(byFrequency(errors), "")[0] }

// byFrequency returns the classes of errors, the most frequent first, then by name.
func byFrequency(errors map[string]uint64) []string {
	return slices.SortedFunc(maps.Keys(errors), func(a, b string) int {
		return cmp.Or(cmp.Compare(errors[b], errors[a]), cmp.Compare(a, b))
	})
}

// ErrorCounts lists errors by class, the most frequent first: "http_500: 2, timeout: 1".
func ErrorCounts(errors map[string]uint64) string {
	return strings.Join(lists.Each(byFrequency(errors), func(class string) string {
		return class + ": " + words.Thousands(errors[class])
	}), ", ")
}

// failures compares the share of failed requests with limits, says how they failed, and what to do about it.
func failures(l limits, e Evidence) (Check, bool) {
	failed, ended := e.Counts[measure.Failed], e.Counts[measure.Completed]+e.Counts[measure.Failed]
	most := MostFrequent(e.Errors)
	how := fmt.Sprintf("%d of %d requests", failed, ended)
	if failed == ended {
		how = fmt.Sprintf("all %d requests", ended)
	}
	words := how + " failed"
	if status, answered := strings.CutPrefix(most, "http_"); answered && e.Errors[most] == failed {
		words = fmt.Sprintf("the server answered %s to %s", status, how)
	}
	c, known := l.held(share(failed, ended), "%s", words)
	for _, r := range remediesOfErrors {
		if strings.HasPrefix(most, r.class) {
			c.Remedy = &r.remedy
			break
		}
	}
	return c, known
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
	part := min(1, share(c[measure.WholeAnswers]+c[measure.InOneFrame]+c[measure.WrittenAtOnce], all))
	switch max(c[measure.WholeAnswers], c[measure.InOneFrame], c[measure.WrittenAtOnce]) {
	case 0:
		return streamingLimits.held(part, "every answer of several tokens came as a stream")
	case c[measure.WholeAnswers]:
		return streamingLimits.held(part, "%d of %d answers came as one body: the server does not stream",
			c[measure.WholeAnswers], all)
	case c[measure.InOneFrame]:
		return streamingLimits.held(part,
			"%d of %d answers of several tokens by usage came in 1 frame (%.0f tokens on average): the server does not "+
				"stream token by token, or hides reasoning", c[measure.InOneFrame], all,
			share(c[measure.OutputTokens], c[measure.Completed]))
	default:
		return streamingLimits.held(part, "all tokens of %d of %d answers came in one write: they were held back",
			c[measure.WrittenAtOnce], all)
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
	hidden := c[measure.HiddenReasoningTokens] // some servers count them beside the output tokens, not among them
	all := c[measure.OutputTokens]
	if hidden > 0 {
		all = max(all, c[measure.TokenFrames]+hidden)
	}
	reasoning, head := share(hidden, all), headShare(c)
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
	return limits{allowed, 5 * allowed}.held(off, "sent %.4g requests/s, planned %.4g", e.Open.Achieved, e.Open.Asked)
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

// mostNoise is the share of a quiet server's answers that may differ: above it, answers under load say nothing.
const mostNoise = 0.05

// falseAlarms is the share of sound stages that the check of answers accuses at most by texts, and by tasks.
const falseAlarms, falseTaskAlarms = 0.01, 0.001

// answers fails if more of the answers to canaries differ under load than by chance, if they differ no more often than
// when the server is quiet: of all endpoints together, or of one. That one is compared with the others, quiet and under
// load, because a small share needs a thousand answers to be found, and may be there when the endpoint is quiet. Tasks
// have a right answer, so those answered wrong are judged whatever the texts.
func answers(e Evidence) (Check, bool) {
	all, right := e.canaries(), e.Counts[measure.CanaryTasksRight]
	tasks := Canaries{QuietAsked: all.QuietTasks, QuietDiffering: all.QuietTasks - all.QuietRight,
		Asked: e.Counts[measure.CanaryTasks], Differing: e.Counts[measure.CanaryTasks] - right}
	judged := all.Asked > 0 && all.QuietAsked > 0 && share(all.QuietDiffering, all.QuietAsked) <= mostNoise
	var worst Canaries
	var surely float64
	var what, elsewhere string
	if judged {
		worst, surely, what, elsewhere = e.differing(all)
	}
	if tasks.Asked > 0 && tasks.QuietAsked > 0 {
		more := tasks.beyond(tasks.QuietDiffering, tasks.QuietAsked, 1-2*falseTaskAlarms)
		if !judged || more > max(surely, 0) {
			worst, surely, what, elsewhere = tasks, more, "tasks are answered wrong", ""
		}
	} else if !judged {
		return unknown()
	}
	low, high := chance.Share(share(worst.Differing, worst.Asked), float64(worst.Asked))
	return answerLimits.held(max(surely, 0),
		"%.2g %% of the %d %s under load (%.2g to %.2g %%), %.2g %% of %d when quiet%s",
		100*share(worst.Differing, worst.Asked), worst.Asked, what, 100*low, 100*high,
		100*share(worst.QuietDiffering, worst.QuietAsked), worst.QuietAsked, elsewhere)
}

// differing returns the canaries whose texts differ most surely, by how much, and in words what they are.
func (e Evidence) differing(all Canaries) (worst Canaries, surely float64, what, elsewhere string) {
	confidence := 1 - 2*falseAlarms/float64(len(e.Canaries)+1)
	worst, surely, what = all, all.beyond(all.QuietDiffering, all.QuietAsked, confidence), "canaries differ"
	if len(e.Canaries) == 1 {
		what = "canaries at " + e.Canaries[0].Endpoint + " differ"
	}
	for _, c := range e.Canaries {
		others := all.QuietDiffering + all.Differing - c.QuietDiffering - c.Differing
		of := all.QuietAsked + all.Asked - c.QuietAsked - c.Asked
		if more := c.beyond(others, of, confidence); more > max(surely, 0) && len(e.Canaries) > 1 &&
			share(c.QuietDiffering, c.QuietAsked) <= mostNoise {
			worst, surely, what = c, more, "canaries at "+c.Endpoint+" differ"
			elsewhere = fmt.Sprintf(", %.2g %% of %d at the other endpoints", 100*share(others, of), of)
		}
	}
	return worst, surely, what, elsewhere
}

// beyond returns by how much the share that differs under load surely exceeds another one.
func (c *Canaries) beyond(differing, asked uint64, confidence float64) float64 {
	difference, spread := chance.Shares(c.Differing, c.Asked, differing, asked)
	return difference - spread.Margin(confidence)
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
	c, known := suspect(lengthLimit, far,
		"%.1f %% of the prompts were off by more than 1 %% of the requested length, %.1f %% by a token or more",
		100*far, 100*missed)
	if e.Uncounted {
		c.Remedy = new(remedyUncounted)
	}
	return c, known
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
// consistent. If the server counts for none, an answer that a limit ended has as many tokens as were asked for, and
// fails if it has another number of frames.
func usage(e Evidence) (Check, bool) {
	if e.Counts[measure.Completed] == 0 {
		return unknown()
	}
	without := share(e.Counts[measure.WithoutUsage], e.Counts[measure.Completed])
	if without == 1 {
		words, completed := "output tokens are counted in frames: the server reports no usage", e.Counts[measure.Completed]
		full := max(e.Counts[measure.OSLMissed]+e.Counts[measure.EndedLength], completed) - completed // are in both
		if full > 0 {
			words += fmt.Sprintf(", and at least %d answers that had all their tokens had another number of frames", full)
		}
		c, known := suspect(lengthLimit, share(full, completed), "%s", words)
		c.Remedy = new(remedyFrames)
		return c, known
	}
	return suspect(0, without, "%d of %d requests had no usage: their tokens are counted in frames",
		e.Counts[measure.WithoutUsage], e.Counts[measure.Completed])
}

// prefixCache fails if the server's cache has prompts that the plan meant to be new: they are then cheaper than they
// should be. What the server's chat template adds to each prompt is the same in all, and cached rightly.
func prefixCache(e Evidence) (Check, bool) {
	if e.CachedShare == nil || e.SharedShare == nil {
		return unknown()
	}
	template := share(uint64(e.TemplateTokens)*e.Counts[measure.Completed], e.Counts[measure.InputTokens])
	c, known := suspect(cacheLimit, *e.CachedShare-*e.SharedShare-template,
		"the server took %.1f %% of the prompts' tokens from its cache; the prompts share %.1f %%, and at most %.1f %% are the chat template's",
		100**e.CachedShare, 100**e.SharedShare, 100*template)
	if e.CacheBusting {
		c.Remedy = new(remedyCached)
	}
	return c, known
}

// models fails if the answers to requests for one model name several: the numbers are then those of a mix.
func models(e Evidence) (Check, bool) {
	if len(e.Models) == 0 {
		return unknown()
	}
	worst, words := 0.0, "the answers to each model's requests name one model"
	for _, named := range e.Models {
		all := lists.Sum(named, func(m AnswerModel) uint64 { return m.Requests })
		if part := share(all-named[0].Requests, all); part > worst {
			list := lists.Each(named, func(m AnswerModel) string {
				return fmt.Sprintf("%d name %s (mean E2E %.4g ms)", m.Requests, m.Name, m.MeanE2EMs)
			})
			worst, words = part, fmt.Sprintf("of %d answers, %s", all, strings.Join(list, ", "))
		}
	}
	return suspect(modelLimit, worst, "%s", words)
}
