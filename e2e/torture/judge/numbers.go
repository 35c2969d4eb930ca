package judge

import (
	"math"
	"slices"
)

// judgeNumbers computes the stage's numbers from its rows again: in total, and by endpoint, agent and region.
func (s *stage) judgeNumbers() {
	all := sumOf(s.rows)
	s.same("in all", all, Part{s.Requests.Counts, s.OutputTokens, s.TTFT, s.TPOT, s.E2E, s.Errors})
	s.judgeUnmeasured(all.unmeasured)
	s.judgeDistributions(all)
	s.judgeRates(all)
	if s.DroppedRecords > 0 {
		s.wrong("stage %d lacks %d rows", s.Index, s.DroppedRecords)
	}
	for _, e := range s.Endpoints {
		s.same("at its one endpoint", all, e)
	}
	if len(s.Endpoints) != 1 {
		s.wrong("stage %d has %d endpoints, the script 1", s.Index, len(s.Endpoints))
	}
	for name, rows := range s.rowsBy(func(r *Row) string { return r.Agent }) {
		s.judgePart("by "+name, rows, s.partsOf(name))
	}
	for name, rows := range s.rowsBy(func(r *Row) string { return s.regionOf(r.Agent) }) {
		s.judgePart("in "+name, rows, s.partsIn(name))
	}
	for _, a := range s.Agents {
		if s.regionOf(a.Name) != a.Region {
			s.wrong("stage %d: agent %s is in %q, the script says %q", s.Index, a.Name, a.Region, s.regionOf(a.Name))
		}
	}
}

// rowsBy groups the stage's rows.
func (s *stage) rowsBy(key func(*Row) string) map[string][]*Row {
	out := map[string][]*Row{}
	for _, r := range s.rows {
		out[key(r)] = append(out[key(r)], r)
	}
	return out
}

func (s *stage) partsOf(agent string) (parts []Part) {
	for _, a := range s.Agents {
		if a.Name == agent {
			parts = append(parts, a.Part)
		}
	}
	return parts
}

func (s *stage) partsIn(region string) (parts []Part) {
	for _, r := range s.Regions {
		if r.Name == region {
			parts = append(parts, r.Part)
		}
	}
	return parts
}

// judgePart compares the rows of a part with what the result says about the part. For several processes with one name
// only the sums are known.
func (s *stage) judgePart(what string, rows []*Row, parts []Part) {
	if len(parts) == 1 {
		s.same(what, sumOf(rows), parts[0])
		return
	}
	is, want := Counts{}, sumOf(rows).counts
	for _, p := range parts {
		is.Completed, is.Failed, is.Cancelled = is.Completed+p.Requests.Completed, is.Failed+p.Requests.Failed,
			is.Cancelled+p.Requests.Cancelled
	}
	if is.Completed != want.Completed || is.Failed != want.Failed || is.Cancelled != want.Cancelled {
		s.wrong("stage %d: %+v requests %s, its rows come to %+v", s.Index, is, what, want)
	}
}

// sum is the numbers of some rows.
type sum struct {
	counts                                    Counts
	unmeasured, output, input                 uint64
	ttft, tpot, itl, e2e, ttftSched, e2eSched []int64
	delays                                    []int64
	first, last                               int64
}

func sumOf(rows []*Row) (t sum) {
	t.first, t.last = math.MaxInt64, math.MinInt64
	for _, r := range rows {
		if r.Unmeasured {
			t.unmeasured++
			continue
		}
		t.counts.Started++
		t.first, t.last = min(t.first, r.StartNs), max(t.last, r.EndNs)
		t.delays = append(t.delays, r.StartNs-r.ScheduledNs)
		switch {
		case r.Cancelled:
			t.counts.Cancelled++
		case r.ErrorClass != nil:
			t.counts.Failed++
		default:
			t.counts.Completed++
			t.take(r)
		}
	}
	return t
}

// take adds a completed request.
func (t *sum) take(r *Row) {
	if !r.whole() {
		return // reported elsewhere
	}
	first, last, n := *r.FirstTokenNs, *r.LastTokenNs, *r.OutputTokens
	t.output, t.input = t.output+n, t.input+*r.InputTokens
	t.ttft, t.e2e = append(t.ttft, first-r.StartNs), append(t.e2e, last-r.StartNs)
	t.ttftSched, t.e2eSched = append(t.ttftSched, first-r.ScheduledNs), append(t.e2eSched, last-r.ScheduledNs)
	t.itl = append(t.itl, r.ITLNs...)
	if n > 1 {
		gaps := int64(n - 1)
		t.tpot = append(t.tpot, (last-first+gaps/2)/gaps)
	}
}

// same compares a part with its rows.
func (s *stage) same(what string, want sum, is Part) {
	s.sameCounts(what, want, is)
	s.judgeDistribution("TTFT "+what, want.ttft, is.TTFT)
	s.judgeDistribution("TPOT "+what, want.tpot, is.TPOT)
	s.judgeDistribution("E2E "+what, want.e2e, is.E2E)
}

// sameCounts compares the counts of a part with its rows. A request in flight on a lost agent counts as started, but
// never ends and has no row.
func (s *stage) sameCounts(what string, want sum, is Part) {
	c, w := is.Requests, want.counts
	c.Started, w.Started = 0, 0
	if c != w {
		s.wrong("stage %d: %+v requests %s, its rows come to %+v", s.Index, is.Requests, what, want.counts)
	}
	if is.OutputTokens != want.output {
		s.wrong("stage %d: %d output tokens %s, its rows come to %d", s.Index, is.OutputTokens, what, want.output)
	}
	if len(is.Errors) > 0 {
		s.wrong("stage %d: errors %s: %v", s.Index, what, is.Errors)
	}
	if high := s.mostStarted(want); is.Requests.Started < want.counts.Started || is.Requests.Started > high {
		s.wrong("stage %d: %d requests started %s, its rows come to %d, and the server had %d at most", s.Index,
			is.Requests.Started, what, want.counts.Started, high)
	}
}

// mostStarted returns how many requests may have started. In a stage that is not complete, these include all that the
// server received.
func (s *stage) mostStarted(rows sum) uint64 {
	if s.Complete {
		return rows.counts.Started
	}
	n := rows.counts.Started
	for id := range s.served {
		if id.Stage == s.Index && len(s.judge.rows[id]) == 0 {
			n++
		}
	}
	return n + uint64(s.load.Concurrency) // about to be sent
}

// judgeUnmeasured compares the requests of the warm-up.
func (s *stage) judgeUnmeasured(rows uint64) {
	is := s.Requests.Unmeasured
	if is < rows || is > uint64(s.load.Warmup) || s.Complete && (is != rows || rows != uint64(s.load.Warmup)) {
		s.wrong("stage %d: %d requests of the warm-up, its rows come to %d, the script asks for %d", s.Index, is, rows,
			s.load.Warmup)
	}
}

// judgeDistributions compares the distributions that only the whole stage has.
func (s *stage) judgeDistributions(all sum) {
	s.judgeDistribution("ITL", all.itl, s.ITL)
	s.judgeDistribution("TTFT from the schedule", all.ttftSched, s.TTFTScheduled)
	s.judgeDistribution("E2E from the schedule", all.e2eSched, s.E2EScheduled)
	s.judgeDistribution("send delay", all.delays, s.SendDelay)
}

// judgeDistribution compares a distribution with the values that it summarizes.
func (s *stage) judgeDistribution(what string, values []int64, is *Distribution) {
	switch {
	case is == nil && len(values) > 0, is != nil && is.Count > 0 && len(values) == 0:
		s.wrong("stage %d: %s: a distribution %v for %d values", s.Index, what, is, len(values))
	case is != nil && !is.of(values):
		s.wrong("stage %d: %s: mean %v, p50 %v, p99 %v of %d values is not what its %d rows come to", s.Index, what,
			is.Mean, is.P50, is.P99, is.Count, len(values))
	}
}

// of reports whether the distribution is that of values. It sorts values.
func (d *Distribution) of(values []int64) bool {
	slices.Sort(values)
	mean, std := moments(values)
	ok := d.Count == uint64(len(values)) && near(d.Mean, mean, 1e-6) && about(d.P50, values, 0.5) &&
		about(d.P90, values, 0.9) && about(d.P99, values, 0.99)
	if !ok || d.short() {
		return ok
	}
	return d.whole() && near(*d.Std, std, 2e-6) && near(*d.Min, millis(values[0]), 2e-6) &&
		near(*d.Max, millis(values[len(values)-1]), 2e-6) &&
		about(*d.P95, values, 0.95) && about(*d.P999, values, 0.999)
}

// short reports whether the distribution has the short form of breakdowns.
func (d *Distribution) short() bool {
	return d.Std == nil && d.Min == nil && d.Max == nil && d.P95 == nil && d.P999 == nil
}

// whole reports whether no field is missing.
func (d *Distribution) whole() bool {
	return d.Std != nil && d.Min != nil && d.Max != nil && d.P95 != nil && d.P999 != nil
}

// judgeRates compares rates and their duration.
func (s *stage) judgeRates(all sum) {
	if s.InputTokens == nil || *s.InputTokens != all.input {
		s.wrong("stage %d: input tokens %v, its rows come to %d", s.Index, s.InputTokens, all.input)
	}
	if s.DurationS == nil || s.RequestThroughput == nil || s.OutputTokenThroughput == nil {
		if len(s.steadfast()) > 0 || s.DurationS != nil || s.RequestThroughput != nil ||
			s.OutputTokenThroughput != nil {
			s.wrong("stage %d lacks its duration or its rates", s.Index)
		}
		return
	}
	sure := sumOf(s.steadfast())
	took, least := all.took(), sure.took()
	if d := *s.DurationS; d > took+1e-6 || d < least-1e-6 {
		s.wrong("stage %d took %v s, its rows %v s, those of agents that lost nothing %v s", s.Index, d, took, least)
	}
	if d := *s.DurationS; !near(*s.RequestThroughput, float64(all.counts.Completed)/d, 1e-6) ||
		!near(*s.OutputTokenThroughput, float64(all.output)/d, 1e-6) {
		s.wrong("stage %d: %v requests/s and %v tokens/s over %v s, its rows come to %d and %d", s.Index,
			*s.RequestThroughput, *s.OutputTokenThroughput, d,
			all.counts.Completed, all.output)
	}
}

// steadfast returns the measured rows of agents that lack nothing: the result has the totals of those agents.
func (s *stage) steadfast() (rows []*Row) {
	for _, r := range s.rows {
		lacks := s.names(r.Agent) || slices.ContainsFunc(s.Agents, func(a Agent) bool {
			return a.Name == r.Agent &&
				(a.Loss != nil || a.Failure != nil)
		})
		if !lacks && !r.Unmeasured {
			rows = append(rows, r)
		}
	}
	return rows
}

// took returns the time from the first start to the last end, in seconds, or 0 if nothing started.
func (t *sum) took() float64 {
	if t.counts.Started == 0 {
		return 0
	}
	return float64(t.last-t.first) / 1e9
}

// moments returns mean and standard deviation of nanoseconds, in milliseconds.
func moments(values []int64) (mean, std float64) {
	for _, v := range values {
		mean += millis(v)
	}
	mean /= float64(len(values))
	for _, v := range values {
		std += (millis(v) - mean) * (millis(v) - mean)
	}
	return mean, math.Sqrt(std / float64(len(values)))
}

// about reports whether a percentile is that of sorted values, by nearest rank, to three digits and a microsecond.
func about(is float64, values []int64, q float64) bool {
	rank := max(1, int(math.Ceil(q*float64(len(values))-1e-9)))
	want := millis(values[rank-1])
	return math.Abs(is-want) <= 0.001*want+0.0011
}

// near reports whether two numbers are equal except for rounding.
func near(is, want, tolerance float64) bool {
	return math.Abs(is-want) <= tolerance*math.Max(1, math.Abs(want))
}

func millis(ns int64) float64 { return float64(ns) / 1e6 }
