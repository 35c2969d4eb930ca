package plans

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// loadPoints returns the load points of a load, in the order of its values. The repeats of a value follow it.
func loadPoints(l *spatev1.Load) []*spatev1.LoadPoint {
	var points []*spatev1.LoadPoint
	for _, first := range firstPoints(l) {
		for repeat := range max(1, l.GetRepeats()) {
			point := proto.CloneOf(first)
			point.Repeat = repeat
			points = append(points, point)
		}
	}
	return points
}

// firstPoints returns one point for each value of the load, without repeats. A sweep or a search is one point: the
// template of its stages.
func firstPoints(l *spatev1.Load) []*spatev1.LoadPoint {
	var points []*spatev1.LoadPoint
	for _, n := range concurrencies(l) {
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
	return append(points, singlePoints(l)...)
}

// singlePoints returns the point of a load that has only one: phases, a replay, a sweep or a search.
func singlePoints(l *spatev1.Load) []*spatev1.LoadPoint {
	switch {
	case len(l.GetConcurrencyPhases()) > 0:
		point := loadPoint(l)
		point.Phases = filledPhases(l.GetConcurrencyPhases())
		point.Concurrency = uint32(math.Ceil(largestPhase(point.Phases)))
		return []*spatev1.LoadPoint{point}
	case len(l.GetRatePhases()) > 0:
		point := openPoint(l)
		point.Phases = filledPhases(l.GetRatePhases())
		point.Rate = largestPhase(point.Phases)
		return []*spatev1.LoadPoint{point}
	case l.GetReplay() != nil:
		point := loadPoint(l)
		point.Arrival, point.ReplaySpeed = traceArrival, cmp.Or(l.GetReplay().GetSpeed(), 1)
		point.Split = cmp.Or(l.GetSplit(), splitInTurn)
		return []*spatev1.LoadPoint{point}
	case l.GetSweep() != nil:
		point := openPoint(l)
		point.Sweep = filledSweep(l.GetSweep())
		return []*spatev1.LoadPoint{point}
	case l.GetSearch().GetRate() != nil:
		point := openPoint(l)
		point.Search = filledSearch(l.GetSearch())
		return []*spatev1.LoadPoint{point}
	case l.GetSearch() != nil:
		point := loadPoint(l)
		point.Search = filledSearch(l.GetSearch())
		return []*spatev1.LoadPoint{point}
	}
	return nil
}

// traceArrival is the arrival process of a replay.
const traceArrival = "trace"

// openPoint returns what all points of an open loop have in common.
func openPoint(l *spatev1.Load) *spatev1.LoadPoint {
	point := loadPoint(l)
	point.Arrival = cmp.Or(l.GetArrival(), defaultArrival)
	point.Burstiness = l.GetBurstiness()
	//nolint:protogetter // whether it is given is what counts
	point.Unconditioned = l.Conditioned != nil && !l.GetConditioned()
	point.Split = cmp.Or(l.GetSplit(), defaultSplit(point.GetArrival()))
	return point
}

// defaultSplit returns how the arrivals of a process are split over agents. Poisson arrivals are thinned: then each
// agent and each region sees a Poisson process, as the plan says. Other processes do not have this property. Dealt out
// in turn, constant arrivals stay constant on each agent, and every agent gets exactly its part.
func defaultSplit(arrival string) string {
	if arrival == defaultArrival {
		return splitRandom
	}
	return splitInTurn
}

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
		ThinkTime:         filledThinkTime(l.GetThinkTime()),
		Abort:             filledAbort(l.GetAbort()),
		Until:             filledPrecision(l.GetUntil()),
	}
}

// concurrencies returns the values of a closed loop.
func concurrencies(l *spatev1.Load) []uint32 {
	values := slices.Clone(l.GetConcurrency())
	var whole []uint32
	for _, v := range rangeValues(l.GetConcurrencyRange()) {
		whole = append(whole, uint32(math.Round(v)))
	}
	return append(values, slices.Compact(whole)...)
}

// rates returns the values of an open loop.
func rates(l *spatev1.Load) []float64 {
	return append(slices.Clone(l.GetRate()), rangeValues(l.GetRateRange())...)
}

// rangeValues returns the values of a range, rising, with both ends. It returns nil for a range that breaks a rule. It
// stops after one value more than a range may have.
func rangeValues(r *spatev1.Range) []float64 {
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
		value = func(i int) float64 { return rounded(from+float64(i)*r.GetStep(), exactDigits) }
	case r.GetFactor() > 1:
		value = func(i int) float64 { return rounded(from*math.Pow(r.GetFactor(), float64(i)), exactDigits) }
	default:
		return nil
	}
	values := []float64{from}
	for i := 1; len(values) < maxValues; i++ {
		v := value(i)
		if v >= to {
			break
		}
		if v > values[len(values)-1] {
			values = append(values, v)
		} else if i > maxValues {
			break // The step is too small to change the value.
		}
	}
	return append(values, to)
}

// byPoints returns a function for the i-th of n values between two ends, with equal ratios between neighbours. Six
// digits are enough to tell the values apart, and short enough for a table.
func byPoints(from, to float64, n int) func(int) float64 {
	return func(i int) float64 {
		if i >= n-1 {
			return to
		}
		return rounded(from*math.Pow(to/from, float64(i)/float64(n-1)), tableDigits)
	}
}

// Digits that the values of ranges are rounded to: tableDigits for values that Spate chooses, exactDigits for values
// that the plan defines, so that 0.1 + 2 x 0.1 is 0.3.
const (
	tableDigits = 6
	exactDigits = 12
)

func rounded(v float64, digits int) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v // Infinite: beyond every end.
	}
	return short
}

// phaseEnd returns the value at a phase's end.
func phaseEnd(p *spatev1.Phase) float64 {
	if p.To == nil { //nolint:protogetter // whether it is given is what counts
		return p.GetFrom()
	}
	return p.GetTo()
}

func largestPhase(phases []*spatev1.Phase) float64 {
	largest := 0.0
	for _, p := range phases {
		largest = max(largest, p.GetFrom(), phaseEnd(p))
	}
	return largest
}

// phasesTime returns the total duration of a load's phases.
func phasesTime(l *spatev1.Load) time.Duration {
	return timeOf(append(slices.Clone(l.GetConcurrencyPhases()), l.GetRatePhases()...))
}

func timeOf(phases []*spatev1.Phase) time.Duration {
	var total time.Duration
	for _, p := range phases {
		total += p.GetDuration().AsDuration()
	}
	return total
}

// mostStages returns how many stages a load may come to, for each target and workload. It does not list the stages:
// repeats of long lists may not fit in memory.
func mostStages(l *spatev1.Load) int {
	points := len(concurrencies(l)) + len(rates(l))
	for _, single := range singlePoints(l) {
		points += int(templateStages(single))
	}
	return points * int(max(1, l.GetRepeats()))
}
