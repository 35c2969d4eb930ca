package trust

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// precision is the part of a printed latency by which it may be off, and leastPrecision the milliseconds by which
	// it may be in any case. spate calibrate asks the same of an agent's times: 100 us, 1 % of 10 ms for a token.
	precision, leastPrecision = 0.01, 0.1
	// leastIdle is for how many milliseconds a slot may be idle after each request in any case: twice leastPrecision,
	// as throughput may be off by twice the part that a latency may. Between short requests any client needs that long.
	leastIdle = 2 * leastPrecision
	// fewBeyond is how many values must lie beyond a percentile so that it decides something.
	fewBeyond = 10
)

// statistic is a number that is printed of a metric. 0 is the mean.
type statistic struct {
	name    string
	percent float64
}

// statistics are those of a metric. rare is printed only in results.json and the report's long tables.
var (
	mean       = statistic{"mean", 0}
	rare       = statistic{"p99_9", 99.9}
	statistics = []statistic{mean, {"p50", 50}, {"p90", 90}, {"p95", 95}, {"p99", 99}, rare}
)

// decides reports whether enough of n values lie beyond the percentile.
func (s statistic) decides(n uint64) bool {
	return s == mean || s != rare && float64(n)*(1-s.percent/100) >= fewBeyond-1e-9
}

// moved is how many values of a metric may have been recorded too long, and how many too short.
type moved struct {
	metric      spatev1.Metric
	long, short uint64
}

// off returns by how many milliseconds a statistic may be off, if the shares long and short of the values were recorded
// too long and too short. Values that are moved down by any amount leave a percentile p at or above that of p - long,
// and values that are moved up leave it at or below that of p + short. A mean is moved by at most the range of the
// values for each; the mean gap between tokens depends on first and last tokens only, not on those between.
func (m moved) off(h *histogram.Histogram, s statistic, long, short float64) float64 {
	if s == mean {
		if m.metric == metricITL {
			return 0
		}
		return (long + short) * float64(h.Max()-h.Min()) / nsPerMs
	}
	at := func(p float64) float64 { return float64(h.Percentile(p)) / nsPerMs }
	return max(at(s.percent)-at(s.percent-100*long), at(min(100, s.percent+100*short))-at(s.percent))
}

// judge returns how far the worst statistic that decides is surely off, relative to its precision, the names of those
// that may be off by more than that, and, in words, the one of them that is off most.
func (m moved) judge(h *histogram.Histogram) (doubt float64, touches, words []string) {
	name, n, most := measure.Of(m.metric).Name, h.Count(), 0.0
	for _, s := range statistics {
		value := float64(h.Percentile(s.percent)) / nsPerMs
		if s == mean {
			value = h.Mean() / nsPerMs
		}
		allowed := max(leastPrecision, precision*value)
		off := m.off(h, s, share(min(m.long, n), n), share(min(m.short, n), n))
		if off > allowed {
			touches = append(touches, name+"."+s.name)
		}
		if s.decides(n) && m.reaches(s, n) {
			doubt = max(doubt, m.off(h, s, atLeast(m.long, n), atLeast(m.short, n))/allowed)
		}
		if !s.decides(n) && len(words) > 0 {
			continue
		}
		if off > max(allowed, most) {
			most = off
			words = []string{fmt.Sprintf("%s of %s %.4g ms", strings.ReplaceAll(s.name, "_", "."),
				strings.ToUpper(strings.TrimSuffix(name, "_ms")), off)}
		}
	}
	return doubt, touches, words
}

// reaches reports whether the moved values are surely as many as lie beyond a percentile of ITL. Fewer move it only
// among the values that are beyond it anyway. Other metrics have one value for a request: each counts.
func (m moved) reaches(s statistic, n uint64) bool {
	return m.metric != metricITL || atLeast(min(n, m.long+m.short), n) >= 1-s.percent/100
}

// nsPerMs is the number of nanoseconds, the unit of histograms of times, in a millisecond.
const nsPerMs = 1e6

// frameTimes fails if so many frames lack a time of their own that a printed latency may be off by more than its
// precision. Of several frames that are read together, only the last has its own time, unless their packets have.
// Frames without the kernel's timestamp have the program's time, which is as late as the program is. TTFT needs the
// first frame of an answer, E2E the last, TPOT both, and ITL all.
func frameTimes(e Evidence) (Check, bool) {
	frames := e.Counts[measure.Frames]
	if frames == 0 || e.Whole || e.Values[metricTTFT] == nil || e.Values[metricE2E] == nil {
		return unknown()
	}
	c := &e.Counts
	shared, unstamped := c[measure.SharedFrames], c[measure.UnstampedFrames]
	first, last := c[measure.LateFirstFrames], c[measure.LateLastFrames]
	var worst float64
	var most, touches []string
	for _, m := range []moved{
		{metricTTFT, first, 0}, {metricE2E, last, 0}, {metricTPOT, last, first},
		{metricITL, min(shared, c[measure.CoalescedReads]) + unstamped, shared + unstamped},
	} {
		if h := e.Values[m.metric]; h != nil && m.long+m.short > 0 {
			doubt, numbers, words := m.judge(h)
			worst, touches, most = max(worst, doubt), append(touches, numbers...), append(most, words...)
		}
	}
	words := timed(c)
	if len(most) > 0 {
		words += "; off by at most: " + strings.Join(most, ", ")
	}
	check, known := suspect(1, worst, "%s", words)
	if check.Touches = touches; shared > 0 && c[measure.PacketFrames] == 0 {
		check.Remedy = new(remedyPackets)
	}
	return check, known
}

// remedyPackets is the remedy of frame_times where no agent took the times of packets.
const remedyPackets = "Run the agents as root or with CAP_BPF, so that frames that are read late keep the times of " +
	"their packets; otherwise give them more cores."

// timed says which times the frames of a stage have.
func timed(c *measure.Counts) string {
	var parts []string
	for _, part := range []struct {
		counter measure.Counter
		words   string
	}{
		{measure.SharedFrames, "share the time of a later one, because they were read together"},
		{measure.UnstampedFrames, "have the program's time instead of the kernel's"},
		{measure.PacketFrames, "have the times of their packets"},
	} {
		if n := c[part.counter]; n > 0 {
			parts = append(parts, fmt.Sprintf("%.3g %% of the frames %s", 100*share(n, c[measure.Frames]), part.words))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "every frame has the kernel's timestamp")
}

// atLeast returns the lower end of the 95 % confidence interval of a share: n of one kind are not evidence of more than
// that.
func atLeast(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	n := float64(whole)
	low, _ := chance.Share(min(1, float64(part)/n), n)
	return low
}

// sendDelay fails if agents send late, which changes the load. The slots of a closed loop are idle until their next
// request starts: throughput is lower by the share of that time, which is only a note up to leastIdle for each request.
// In an open loop, TTFT counts from the start, and is smaller than what a user sees, who counts from the schedule: the
// percentiles of both are compared.
func sendDelay(e Evidence) (Check, bool) {
	delay, e2e := e.Summaries[metricSendDelay], e.Summaries[metricE2E]
	if delay == nil || e2e == nil {
		return unknown()
	}
	if e.Closed != nil {
		idle := max(0, delay.Mean-1.96*delay.Std/math.Sqrt(float64(delay.Count)))
		if lag := e.Summaries[metricReceiveLag]; lag != nil {
			idle += lag.Mean
		}
		part, allowed := idle/(idle+e2e.Mean), max(1, leastIdle/(idle+e2e.Mean)/rateLimits.suspect)
		check, known := limits{allowed * rateLimits.suspect, allowed * rateLimits.invalid}.held(part,
			"requests started %.2f ms after their slot was free, on average: the slots were idle %.1f %% of the time", delay.Mean,
			100*part)
		if part > rateLimits.suspect {
			check.Touches = throughputs
		}
		return check, known
	}
	name, from, due := "TTFT", e.Summaries[metricTTFT], e.Summaries[metricTTFTScheduled]
	if from == nil {
		name, from, due = "E2E", e2e, e.Summaries[metricE2EScheduled]
	}
	if due == nil || e.Summaries[metricHeld] != nil {
		return unknown()
	}
	worst, words := 0.0, "requests started when they were due"
	for _, p := range []struct {
		statistic
		from, due float64
	}{{statistics[1], from.P50, due.P50}, {statistics[3], from.P95, due.P95}, {statistics[4], from.P99, due.P99}} {
		if by := (p.due - p.from) / max(5, 0.05*p.from); by > worst && (p.percent == 50 || p.decides(from.Count)) {
			worst = by
			words = fmt.Sprintf("requests started late: %s of %s is %.2f ms from the start, %.2f ms from when it was due",
				p.name, name, p.from, p.due)
		}
	}
	return limits{1, 5}.held(worst, "%s", words)
}
