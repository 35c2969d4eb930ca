package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// asked returns how many requests the script asks for, including the warm-up. The number is not known if it depends on
// the server's pace or on chance.
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

// open reports whether the stage is an open loop.
func (s *stage) open() bool { return s.load.Rate > 0 }

// judgeSchedule compares when the stage's rows were due with what the script asks for.
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

// judgeConstant checks that requests were due at equal distances, to a microsecond.
func (s *stage) judgeConstant(rows []*Row) {
	for _, r := range rows {
		if due := s.dueConstant(r.Index); abs(r.ScheduledNs-due.Nanoseconds()) > 1000 {
			s.wrong("stage %d request %d was due at %v by its row, and at %v by the script", s.Index, r.Index,
				time.Duration(r.ScheduledNs), due)
			return
		}
	}
}

// dueConstant returns when a request of constant arrivals is due.
func (s *stage) dueConstant(index uint64) time.Duration {
	return time.Duration(math.Round(float64(index) / float64(s.load.Rate) * 1e9))
}

// Bounds that a Poisson process exceeds less than once in 10,000 stages.
const (
	longestGaps = 14  // mean gaps before the end without an arrival: exp(-14)
	sigmas      = 5   // of a count
	ksBound     = 2.3 // of Kolmogorov and Smirnov's statistic: 2 exp(-2 * 2.3^2)
)

// judgePoisson checks that requests were due like arrivals of a Poisson process with the script's rate: in order, as
// many as expected, evenly over their time, and to its end.
func (s *stage) judgePoisson(rows []*Row) {
	for i := 1; i < len(rows); i++ {
		if rows[i].ScheduledNs < rows[i-1].ScheduledNs {
			s.wrong("stage %d request %d was due before request %d", s.Index, rows[i].Index, rows[i-1].Index)
			return
		}
	}
	if !s.Complete || len(rows) <= s.load.Warmup {
		return // arrivals with gaps are judged request by request
	}
	rate, span := float64(s.load.Rate), s.load.For.Seconds()
	// A duration counts from the first measured arrival, a number of requests from the arrival before it.
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

// judgeArrivals judges the measured arrivals of a span that starts at base, in seconds.
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

// judgeInFlight checks that a closed loop kept its concurrency: never more, and hardly ever less until its end.
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

// edge is a moment, in nanoseconds since the stage's start, at which a request or a fault starts or ends.
type edge struct {
	at               int64
	requests, faults int
}

// inFlight returns the peak of requests in flight. Over the time before the last start in which no fault lasted, it
// also returns the integral of requests in flight (busy) and the length of that time (calm), both in nanoseconds.
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

// leastBusy is the part of its slots that a closed loop keeps busy on average at least, over the time in which no fault
// lasts. It holds only if agents recover from all faults: others may leave an agent's slots idle.
const leastBusy = 0.6

// sharesAtStart returns the agents' shares of the load at the stage's start, by their places in the script, as the
// smallest whole numbers with the same ratios. The share of an absent agent is 0.
func (s *stage) sharesAtStart() []int {
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

// judgeAbsent checks that a fault struck each agent that was not part of the stage from its start.
func (s *stage) judgeAbsent() {
	for i := range s.Script.Agents {
		name := script.AgentName(i)
		if hurt := s.hurt(name); !s.began(name) && hurt > s.start {
			s.wrong("stage %d began without agent %s, which nothing had happened to", s.Index, name)
		}
	}
}

// weightOutside returns the weight of the agents of the other region that were part of the stage from its start.
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

// ownerOf returns the agent that owned a request at the stage's start. The owner is not known for Poisson arrivals,
// which are dealt out at random.
//
// Other indices are dealt out by Webster's rule: item k of an agent with weight w is at (2k+1)/(2w), ties by place. In
// a closed loop the index is the number of the slot.
func (s *stage) ownerOf(index uint64) (agent string, known bool) {
	if s.open() && s.load.Arrival != "constant" {
		return "", false
	}
	if !s.open() {
		index %= uint64(s.load.Concurrency)
	}
	shares := s.shares
	cycle := 0
	for _, w := range shares {
		cycle += w
	}
	if cycle == 0 {
		return "", false // no agent was part of the stage
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

// placeOf returns the place of an agent in the script, or -1 if it has none.
func (j *judge) placeOf(name string) int {
	return slices.IndexFunc(j.Script.Agents, func(a script.Agent) bool { return a.Name == name })
}

// regionOf returns the region of an agent by the script.
func (j *judge) regionOf(name string) string {
	if i := j.placeOf(name); i >= 0 {
		return j.Script.Agents[i].Region
	}
	return ""
}

func abs(v int64) int64 { return max(v, -v) }
