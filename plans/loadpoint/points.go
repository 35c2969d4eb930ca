// Package loadpoint turns the loads of a plan into load points, one for each value, and describes and identifies them.
package loadpoint

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// IsFor reports whether a load is for a workload.
func IsFor(l *spatev1.Load, workload string) bool {
	return len(l.GetWorkloads()) == 0 || slices.Contains(l.GetWorkloads(), workload)
}

// IsForTarget reports whether a load is for a target.
func IsForTarget(l *spatev1.Load, target string) bool {
	return len(l.GetTargets()) == 0 || slices.Contains(l.GetTargets(), target)
}

// Of returns the load points of a load, in the order of its values. The repeats of a value follow it.
func Of(l *spatev1.Load) []*spatev1.LoadPoint {
	var points []*spatev1.LoadPoint
	for _, first := range WithoutRepeats(l) {
		first.Choose = defaults.Filled(l.GetChoose())
		for repeat := range max(1, l.GetRepeats()) {
			point := proto.CloneOf(first)
			point.Repeat = repeat
			points = append(points, point)
		}
	}
	return points
}

// WithoutRepeats returns one point for each value of the load, without repeats. A sweep, a search or a frontier is one
// point: the template of its stages.
func WithoutRepeats(l *spatev1.Load) []*spatev1.LoadPoint {
	var points []*spatev1.LoadPoint
	for _, n := range Concurrencies(l) {
		point := loadPoint(l)
		point.Concurrency = n
		if per := l.GetRequestsPerConcurrency(); per > 0 {
			point.Requests = per * uint64(n)
		}
		points = append(points, point)
	}
	for _, rate := range rates(l) {
		point := openPoint(l)
		point.Rate = rate
		points = append(points, point)
	}
	if single := singlePoint(l); single != nil {
		points = append(points, single)
	}
	return points
}

// singlePoint returns the point of a load that has only one: phases, a replay, a sweep, a search or a frontier. Nil: it
// is another load.
func singlePoint(l *spatev1.Load) *spatev1.LoadPoint {
	point, phases := loadPoint(l), ConcurrencyPhases(l)
	s, f := l.GetSearch(), l.GetFrontier()
	if len(RatePhases(l)) > 0 || l.GetSweep() != nil || s.GetRate() != nil || f.GetRate() != nil {
		point = openPoint(l)
	}
	switch {
	case len(phases) > 0:
		point.Phases, point.Concurrency = phases, uint32(math.Ceil(LargestPhase(phases)))
	case len(RatePhases(l)) > 0:
		point.Phases, point.Rate = RatePhases(l), LargestPhase(RatePhases(l))
	case l.GetReplay() != nil:
		point.Arrival, point.ReplaySpeed = traceArrival, cmp.Or(l.GetReplay().GetSpeed(), 1)
		point.Split = splitInTurn
		point.MaxInFlight = l.GetMaxInFlight()
	case l.GetSweep() != nil:
		point.Sweep = defaults.Filled(l.GetSweep())
	case s != nil:
		point.Search = defaults.Filled(s)
	case f != nil:
		point.Frontier = defaults.Filled(f)
	default:
		return nil
	}
	return point
}

// traceArrival is the arrival process of a replay.
const traceArrival = "trace"

// openPoint returns what all points of an open loop have in common.
func openPoint(l *spatev1.Load) *spatev1.LoadPoint {
	point := loadPoint(l)
	point.Arrival = cmp.Or(l.GetArrival(), defaults.Arrival)
	point.Burstiness = l.GetBurstiness()
	// Poisson arrivals are thinned over agents: then each agent and each region sees a Poisson process, as the plan
	// says. Other processes do not have this property. Dealt out in turn, constant arrivals stay constant on each
	// agent, and every agent gets exactly its part.
	point.Split = splitInTurn
	if point.GetArrival() == defaults.Arrival {
		point.Split = "random"
	}
	point.MaxInFlight = l.GetMaxInFlight()
	return point
}

// splitInTurn is the split of arrivals that agents send in turn.
const splitInTurn = "in_turn"

// loadPoint returns what all points of a load have in common.
func loadPoint(l *spatev1.Load) *spatev1.LoadPoint {
	return &spatev1.LoadPoint{
		Requests:          cmp.Or(l.GetRequests(), l.GetSessions()),
		Duration:          proto.CloneOf(l.GetDuration()),
		WarmupRequests:    l.GetWarmup().GetRequests(),
		WarmupDuration:    proto.CloneOf(l.GetWarmup().GetDuration()),
		WarmupUntilSteady: proto.CloneOf(l.GetWarmup().GetUntilSteady()),
		Cooldown:          proto.CloneOf(l.GetCooldown()),
		Stagger:           proto.CloneOf(l.GetStagger()),
		ThinkTime:         defaults.Filled(l.GetThinkTime()),
		Abort:             defaults.Abort(l.GetAbort()),
		Until:             defaults.Filled(l.GetUntil()),
	}
}

// Concurrencies returns the values of a closed loop.
func Concurrencies(l *spatev1.Load) []uint32 {
	values := slices.Clone(l.GetConcurrency())
	whole := lists.Each(RangeValues(l.GetConcurrencyRange()), func(v float64) uint32 { return uint32(math.Round(v)) })
	return append(values, slices.Compact(whole)...)
}

// rates returns the values of an open loop.
func rates(l *spatev1.Load) []float64 {
	return append(slices.Clone(l.GetRate()), RangeValues(l.GetRateRange())...)
}

// IsTemplate reports whether a load point becomes stages one by one: a sweep, a search, a frontier or a choice.
func IsTemplate(l *spatev1.LoadPoint) bool { return Kind(l) != "" }

// Kinds of load points that become stages one by one.
const (
	Sweep    = "sweep"
	Search   = "search"
	Frontier = "frontier"
	Choice   = "choice"
)

// IsThroughput reports whether a choice's best target is that with the most of something per second, not with the
// lowest latency.
func IsThroughput(best string) bool {
	return slices.Contains([]string{"", "throughput", "output_throughput", "goodput"}, best)
}

// Kind returns the kind of such a load point. Empty: it is another one.
func Kind(l *spatev1.LoadPoint) string {
	switch {
	case l.GetSweep() != nil:
		return Sweep
	case l.GetSearch() != nil:
		return Search
	case l.GetFrontier() != nil:
		return Frontier
	case l.GetChoose() != nil:
		return Choice
	}
	return ""
}

// Varied returns the bounds of the rates or of the concurrencies between which a search or a frontier varies the load.
// Both are nil for any other load point.
func Varied(l *spatev1.LoadPoint) (rate, concurrency *spatev1.Bounds) {
	if f := l.GetFrontier(); f != nil {
		return f.GetRate(), f.GetConcurrency()
	}
	return l.GetSearch().GetRate(), l.GetSearch().GetConcurrency()
}

// TemplateStages returns the most stages that a load point can become.
func TemplateStages(l *spatev1.LoadPoint) uint32 {
	switch {
	case l.GetSweep() != nil:
		return l.GetSweep().GetPoints() + 2 // One request at a time, and saturated.
	case l.GetSearch() != nil:
		return l.GetSearch().GetProbes() + l.GetSearch().GetRepeats() - 1
	case l.GetFrontier() != nil:
		return l.GetFrontier().GetPoints()
	}
	return max(1, l.GetChoose().GetRounds()) // of each target
}

// MostStages returns how many stages a load may come to, for each target and workload. It does not list the stages:
// repeats of long lists may not fit in memory.
func MostStages(l *spatev1.Load) int {
	points := len(Concurrencies(l)) + len(rates(l))
	if single := singlePoint(l); single != nil {
		points += int(TemplateStages(single))
	}
	return points * int(max(1, l.GetRepeats(), defaults.Filled(l.GetChoose()).GetRounds()))
}

// ValuesFor returns how many values a percentile needs so that ten of them lie beyond it: the slowest of fewer decide
// by themselves what it is. It returns 0 for a mean, and for the largest value, beyond which there is none.
func ValuesFor(percentile float64) uint64 {
	const beyond = 10
	if percentile <= 0 || percentile >= 100 {
		return 0
	}
	return uint64(math.Ceil(100*beyond/(100-percentile) - 1e-9))
}

// RangeValues returns the values of a range, rising, with both ends. It returns nil for a range that breaks a rule. It
// stops after one value more than a range may have.
func RangeValues(r *spatev1.Range) []float64 {
	from, to := r.GetFrom(), r.GetTo()
	if from <= 0 || to < from {
		return nil
	}
	if from == to {
		return []float64{from}
	}
	var value func(i int) float64
	switch {
	case r.GetPoints() > 1:
		value = byPoints(from, to, int(r.GetPoints()))
	case r.GetStep() > 0:
		value = func(i int) float64 { return Rounded(from+float64(i)*r.GetStep(), exactDigits) }
	case r.GetFactor() > 1:
		value = func(i int) float64 { return Rounded(from*math.Pow(r.GetFactor(), float64(i)), exactDigits) }
	default:
		return nil
	}
	values := []float64{from}
	for i := 1; len(values) < MaxValues; i++ {
		v := value(i)
		if v >= to {
			break
		}
		if v > values[len(values)-1] {
			values = append(values, v)
		} else if i > MaxValues {
			break // The step is too small to change the value.
		}
	}
	return append(values, to)
}

// MaxValues is the most load points that one load may have.
const MaxValues = 1024

// byPoints returns a function for the i-th of n values between two ends, with equal ratios between neighbours. Six
// digits are enough to tell the values apart, and short enough for a table.
func byPoints(from, to float64, n int) func(int) float64 {
	return func(i int) float64 {
		if i >= n-1 {
			return to
		}
		return Rounded(from*math.Pow(to/from, float64(i)/float64(n-1)), tableDigits)
	}
}

// Digits that the values of ranges are rounded to: tableDigits for values that Spate chooses, exactDigits for values
// that the plan defines, so that 0.1 + 2 x 0.1 is 0.3.
const (
	tableDigits = 6
	exactDigits = 12
)

// Rounded rounds to significant digits.
func Rounded(v float64, digits int) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v // Infinite: beyond every end.
	}
	return short
}

// Exact removes the noise that binary fractions leave in the last digits of a value.
func Exact(v float64) float64 { return Rounded(v, exactDigits) }

// RatePhases returns the phases of a load whose rate changes over time. It returns none for other loads.
func RatePhases(l *spatev1.Load) []*spatev1.Phase { return defaults.Phases(l.GetRatePhases()) }

// ConcurrencyPhases returns the phases of a load whose concurrency changes over time. See RatePhases.
func ConcurrencyPhases(l *spatev1.Load) []*spatev1.Phase {
	return defaults.Phases(l.GetConcurrencyPhases())
}

// LargestPhase returns the largest value of phases.
func LargestPhase(phases []*spatev1.Phase) float64 {
	largest := 0.0
	for _, p := range phases {
		largest = max(largest, p.GetFrom(), defaults.PhaseEnd(p))
	}
	return largest
}

// Time returns the total duration of phases.
func Time(phases []*spatev1.Phase) time.Duration {
	return lists.Sum(phases, func(p *spatev1.Phase) time.Duration { return p.GetDuration().AsDuration() })
}
