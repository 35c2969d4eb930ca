package audit

import "fmt"

// identity ties a quantity to others of the same row.
type identity struct {
	words string
	// of is the quantity that must be equal to, at most or at least what follows from others.
	of, bound string
	from      []string
	value     func([]interval) interval
	// slack is the share by which tools may differ from the identity for reasons of their own.
	slack float64
	// when limits the rows that it holds for. Nil: all.
	when func(*row) bool
	// told: a report says if no row has the numbers for it.
	told bool
	// doubt: what contradicts it is unlikely, not impossible.
	doubt bool
}

// Shares by which sound files are off. Rates: some tools take the duration twice. Times: the end of an answer is read
// after its last token, and requests may have begun before the duration.
const (
	rateSlack = 0.005
	timeSlack = 0.02
	noSlack   = 1e-6
)

// used is the share of a concurrency limit that is used on average at least, as a free slot gets a request at once.
const used = 0.8

func must(of, bound, words string, slack float64, value func([]interval) interval, from ...string) identity {
	return identity{words: words, of: of, bound: bound, from: from, value: value, slack: slack}
}

func (id identity) toldWithout() identity                 { id.told = true; return id }
func (id identity) only(when func(*row) bool) identity    { id.when = when; return id }
func (id identity) doubted(when func(*row) bool) identity { id.when, id.doubt = when, true; return id }

func same(v []interval) interval    { return v[0] }
func ratio(v []interval) interval   { return v[0].over(v[1]) }
func sum(v []interval) interval     { return v[0].plus(v[1]) }
func product(v []interval) interval { return v[0].times(v[1]) }

// inFlight is the requests in flight on average, of a rate by the second and milliseconds.
func inFlight(v []interval) interval { return product(v).scaled(1e-3) }

// answer returns a latency of the first token, another latency that comes again with each of the tokens, and tokens of
// which by are more, as the latency of the answer.
func answer(by float64) func([]interval) interval {
	return func(v []interval) interval { return v[0].plus(v[1].times(v[2].shift(by))) }
}

// identities are all that are checked. docs/audit.md says where each is from.
var identities = append(between(), statistical()...)

func between() []identity {
	const little = "requests/s x mean E2E (Little's law)"
	return []identity{
		must(requestRate, "=", "requests / duration", rateSlack, ratio, requests, duration).toldWithout(),
		must(outputRate, "=", "output tokens / duration", rateSlack, ratio, output, duration).toldWithout(),
		must(inputRate, "=", "input tokens / duration", rateSlack, ratio, input, duration),
		must(totalRate, "=", "(input + output tokens) / duration", rateSlack, func(v []interval) interval {
			return v[0].plus(v[1]).over(v[2])
		}, input, output, duration).toldWithout(),
		must(totalRate, "=", "input + output tokens/s", rateSlack, sum, inputRate, outputRate),
		must(osl+mean, "=", "output tokens / requests", rateSlack, ratio, output, requests),
		must(outputRate, "=", "requests/s x mean output tokens", rateSlack, product, requestRate, osl+mean),
		must(goodput, "<=", "requests/s", rateSlack, same, requestRate),
		must(peakRate, ">=", "output tokens/s on average", rateSlack, same, outputRate),
		must(peakRate, "<=", "output tokens of the whole test, in a second", 0, same, output),
		must(e2e+mean, "=", "mean TTFT + mean TPOT x (output tokens - 1)", timeSlack, answer(-1), ttft+mean, tpot+mean, osl+mean).
			only((*row).fixedLengths).toldWithout(),
		// Gaps are between frames: at most as many as tokens. vLLM's has two more, before frames without a token. Only
		// in doubt: GuideLLM's answers end when their end is read, long after the last token if it is too busy.
		must(e2e+mean, "<=", "mean TTFT + mean ITL x (output tokens + 1)", timeSlack, answer(1), ttft+mean, itl+mean, osl+mean).
			toldWithout().doubted(nil),
		must(itl+mean, ">=", "mean TPOT x (output tokens - 1) / (output tokens + 1)", timeSlack, func(v []interval) interval {
			return v[0].times(v[1].shift(-1).over(v[1].shift(1)))
		}, tpot+mean, osl+mean).only((*row).fixedLengths),
		must(e2e+".p99", "<=", "the duration", timeSlack, func(v []interval) interval { return v[0].scaled(1000) }, duration),
		must(meanInFlight, "=", little, timeSlack, inFlight, requestRate, e2e+mean),
		must(concurrency, ">=", little, timeSlack, inFlight, requestRate, e2e+mean).toldWithout(),
		must(concurrency, "<=", fmt.Sprint(little, " / ", used), timeSlack, func(v []interval) interval {
			return inFlight(v).scaled(1 / used)
		}, requestRate, e2e+mean).doubted(func(r *row) bool { return r.table > 0 }),
	}
}

// statistical returns what holds between the statistics of any latency: their order, and Markov's inequality, by which
// at most a share mean / x of values that are not negative is above x. A first token is never after the last one, so
// that holds for every statistic of the two.
func statistical() (all []identity) {
	order := []string{".min", ".p50", ".p90", ".p95", ".p99", ".max"}
	for _, latency := range []string{ttft, tpot, itl, e2e} {
		for i, low := range order {
			for _, high := range order[i+1:] {
				all = append(all, must(latency+high, ">=", "the "+low[1:], noSlack, same, latency+low))
			}
		}
		for i, above := range []float64{0.5, 0.1, 0.05, 0.01} {
			statistic := order[i+1]
			all = append(all, must(latency+mean, ">=", fmt.Sprintf("%g of the %s (Markov)", above, statistic[1:]), timeSlack,
				func(v []interval) interval { return v[0].scaled(above) }, latency+statistic))
		}
		all = append(all, must(latency+mean, ">=", "the minimum", noSlack, same, latency+".min"),
			must(latency+mean, "<=", "the maximum", noSlack, same, latency+".max"))
	}
	for _, statistic := range append(order, mean) {
		all = append(all, must(ttft+statistic, "<=", "that of E2E", timeSlack, same, e2e+statistic))
	}
	return all
}
