package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// asked is how many requests the script asks for, warm-up included. It is not known where only the server's pace or
// chance can tell.
func (s *stage) asked() (n uint64, known bool) {
	l := s.load
	switch {
	case l.Requests > 0:
		return uint64(l.Warmup + l.Requests), true
	case l.Rate > 0 && l.Arrival == "constant":
		return uint64(l.Warmup) + uint64(math.Ceil(float64(l.Rate)*l.For.Seconds())), true
	default:
		return 0, false
	}
}

// open reports whether requests come by a rate.
func (s *stage) open() bool { return s.load.Rate > 0 }

// judgeSchedule compares when the stage's rows say they were due with what the script asks for.
func (s *stage) judgeSchedule() {
	if n, known := s.asked(); known {
		s.Asked += int(n)
		for _, r := range s.rows {
			if r.Index >= n {
				s.wrong("stage %d has request %d, and the script asks for %d", s.Index, r.Index, n)
			}
		}
	}
	rows := slices.Clone(s.rows)
	slices.SortFunc(rows, func(a, b *Row) int { return cmp.Compare(a.Index, b.Index) })
	switch {
	case !s.open():
		s.judgeInFlight()
	case s.load.Arrival == "constant":
		s.judgeConstant(rows)
	default:
		s.judgePoisson(rows)
	}
	for _, r := range rows {
		if s.open() && r.Unmeasured != (r.Index < uint64(s.load.Warmup)) {
			s.wrong("stage %d request %d is of the warm-up: %v, which has %d", s.Index, r.Index, r.Unmeasured,
				s.load.Warmup)
			return
		}
	}
}

// judgeConstant looks whether requests were due at equal distances, to a microsecond.
func (s *stage) judgeConstant(rows []*Row) {
	for _, r := range rows {
		if due := s.dueConstant(r.Index); abs(r.ScheduledNs-due.Nanoseconds()) > 1000 {
			s.wrong("stage %d request %d was due at %v by its row, and at %v by the script", s.Index, r.Index,
				time.Duration(r.ScheduledNs), due)
			return
		}
	}
}

// dueConstant is when a request of constant arrivals is due.
func (s *stage) dueConstant(index uint64) time.Duration {
	return time.Duration(math.Round(float64(index) / float64(s.load.Rate) * 1e9))
}

// Bounds that a Poisson process breaks less than once in 10,000 stages.
const (
	longestGaps = 14  // mean gaps before the end without an arrival: exp(-14)
	sigmas      = 5   // of a count
	ksBound     = 2.3 // of Kolmogorov and Smirnov's statistic: 2 exp(-2 * 2.3^2)
)

// judgePoisson looks whether requests were due as arrivals of a Poisson process of the script's rate: in order, as many
// as they should be, evenly over their time, and to its end.
func (s *stage) judgePoisson(rows []*Row) {
	for i := 1; i < len(rows); i++ {
		if rows[i].ScheduledNs < rows[i-1].ScheduledNs {
			s.wrong("stage %d request %d was due before request %d", s.Index, rows[i].Index, rows[i-1].Index)
			return
		}
	}
	if !s.Complete || len(rows) <= s.load.Warmup {
		return // of arrivals with holes the rest is looked at request by request
	}
	rate, span := float64(s.load.Rate), s.load.For.Seconds()
	// a duration counts from the first measured arrival, a number of requests from the one before it
	first := s.load.Warmup
	if s.load.Requests > 0 {
		first, span = first-1, float64(s.load.Requests)/rate
	}
	base := 0.0
	if s.load.Warmup > 0 {
		base = float64(rows[first].ScheduledNs) / 1e9
	}
	s.judgeArrivals(rows[s.load.Warmup:], base, span, rate)
}

// judgeArrivals looks at the measured arrivals of a span that begins at base, in seconds.
func (s *stage) judgeArrivals(rows []*Row, base, span, rate float64) {
	last := float64(rows[len(rows)-1].ScheduledNs)/1e9 - base
	n, mean := float64(len(rows)), rate*span
	far := 0.0
	for i, r := range rows {
		u := (float64(r.ScheduledNs)/1e9 - base) / span
		far = max(far, math.Abs(u-float64(i)/n), math.Abs(u-float64(i+1)/n))
	}
	switch {
	case s.load.Requests > 0 && math.Abs(last-span) > 1e-6:
		s.wrong("stage %d: the last of %d arrivals is due at %v s, and %v s were asked for", s.Index,
			len(rows), last, span)
	case s.load.Requests == 0 && (math.Abs(n-mean) > sigmas*math.Sqrt(mean)+1 || last > span ||
		last < span-longestGaps/rate):
		s.wrong("stage %d: %d arrivals to %v s: %v s at %v/s were asked for", s.Index, len(rows), last, span, rate)
	case far*math.Sqrt(n) > ksBound:
		s.wrong("stage %d: its arrivals are not spread evenly over %v s: Kolmogorov and Smirnov's distance is %v",
			s.Index, span, far)
	}
}

// judgeInFlight looks whether a closed loop kept its concurrency: never more, hardly ever less until its end.
func (s *stage) judgeInFlight() {
	if !s.Complete || len(s.rows) == 0 {
		return
	}
	last := int64(0)
	var edges []edge
	for _, r := range s.rows {
		edges = append(edges, edge{at: r.StartNs, requests: 1}, edge{at: r.EndNs, requests: -1})
		last = max(last, r.StartNs)
	}
	for _, f := range s.Notes.Struck {
		edges = append(edges, edge{at: int64(f.From - s.start), faults: 1},
			edge{at: int64(f.To.Add(late) - s.start), faults: -1})
	}
	peak, busy, calm := inFlight(edges, last)
	want := s.load.Concurrency
	idle := s.promised() && busy < leastBusy*float64(want)*calm
	if peak > want || peak < want-1 || idle {
		s.wrong("stage %d had %d requests in flight at most and %.2f in the mean of %.1f s: concurrency %d was asked for",
			s.Index, peak, busy/calm, calm/1e9, want)
	}
	if s.load.Requests == 0 && time.Duration(last) < s.load.For-late {
		s.wrong("stage %d started its last request at %v, and %v were asked for", s.Index,
			time.Duration(last), s.load.For)
	}
}

// edge is a moment, in nanoseconds since the stage's start, at which requests start or end, or faults.
type edge struct {
	at               int64
	requests, faults int
}

// inFlight is the most requests in flight, the sum of their times in flight until the last start while no fault lasted,
// and how long that was.
func inFlight(edges []edge, last int64) (peak int, busy, calm float64) {
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at),
			cmp.Compare(a.requests, b.requests))
	})
	now, faults, until := 0, 0, int64(0)
	for _, e := range edges {
		if at := min(e.at, last); at > until {
			if faults == 0 {
				busy, calm = busy+float64(now)*float64(at-until), calm+float64(at-until)
			}
			until = at
		}
		now, faults = now+e.requests, faults+e.faults
		peak = max(peak, now)
	}
	return peak, busy, calm
}

// leastBusy is the part of its slots that a closed loop keeps busy at least, in the mean of the time in which no fault
// lasted, if agents recover from all of them. Others may leave an agent's slots idle.
const leastBusy = 0.6

// shares are the agents' shares of the load at the stage's start, by their places in the script, in the smallest whole
// numbers by which they stand to each other. An agent that was not there has 0.
func (s *stage) shares() []int {
	agents := s.Script.Agents
	out := make([]int, len(agents))
	for i, a := range agents {
		if !s.began(script.AgentName(i)) {
			continue
		}
		out[i] = a.Weight
		if s.Script.Regions {
			out[i] *= map[string]int{"eu": 3, "us": 2}[a.Region] * s.weightOutside(a.Region)
		}
	}
	divisor := 0
	for _, w := range out {
		divisor = gcd(divisor, w)
	}
	for i := range out {
		out[i] /= max(divisor, 1)
	}
	return out
}

// began reports whether an agent was part of the stage from its start.
func (s *stage) began(agent string) bool {
	return slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Name == agent && a.JoinedS == nil })
}

// judgeAbsent looks at agents that were not part of the stage from its start: a fault must have struck each of
// them before.
func (s *stage) judgeAbsent() {
	for i := range s.Script.Agents {
		name := script.AgentName(i)
		if hurt := s.hurt(name); !s.began(name) && hurt > s.start {
			s.wrong("stage %d began without agent %s, which nothing had happened to", s.Index, name)
		}
	}
}

// weightOutside is the weight of the agents of the other region that were there at the start.
func (s *stage) weightOutside(region string) (sum int) {
	for i, a := range s.Script.Agents {
		if a.Region != region && s.began(script.AgentName(i)) {
			sum += a.Weight
		}
	}
	return max(sum, 1)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// ownerOf is the agent whom a request belonged to at the stage's start. It is not known of Poisson arrivals, which are
// dealt out by chance.
//
// Of others the numbers are handed out by Webster's rule: item k of an agent with weight w stands at (2k+1)/(2w), equal
// ones by place. In a closed loop that is the number of the slot.
func (s *stage) ownerOf(index uint64) (agent string, known bool) {
	if s.open() && s.load.Arrival != "constant" {
		return "", false
	}
	if !s.open() {
		index %= uint64(s.load.Concurrency)
	}
	shares := s.shares()
	cycle := 0
	for _, w := range shares {
		cycle += w
	}
	if cycle == 0 {
		return "", false // nobody was there
	}
	had := make([]int, len(shares))
	owner := 0
	for range index%uint64(cycle) + 1 {
		owner = 0
		for i, w := range shares {
			if (2*had[i]+1)*shares[owner] < (2*had[owner]+1)*w {
				owner = i
			}
		}
		had[owner]++
	}
	return script.AgentName(owner), true
}

// placeOf is the place of an agent in the script, -1 if it has none.
func (j *judge) placeOf(name string) int {
	return slices.IndexFunc(j.Script.Agents, func(a script.Agent) bool { return a.Name == name })
}

// regionOf is the region of an agent by the script.
func (j *judge) regionOf(name string) string {
	if i := j.placeOf(name); i >= 0 {
		return j.Script.Agents[i].Region
	}
	return ""
}

func abs(v int64) int64 { return max(v, -v) }
