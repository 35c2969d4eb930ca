package schedule

import (
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The tests in this file check the superposition of what all agents send. Seeds are fixed, so results are the same each
// time. The bounds are such that a random seed would exceed them once in a thousand times. Rates are low, so that
// rounding to nanoseconds does not matter even for the many tiny gaps of bursty arrivals.

// superposed is an arrival process under test.
type superposed struct {
	load *spatev1.LoadPoint
	// expected is the integral of the rate, in arrivals. Arrivals and gaps are measured in it.
	expected func(seconds float64) float64
	// cdf is the distribution function of the gaps.
	cdf func(gap float64) float64
	// dispersion is the index of dispersion of counts in long windows, which is also the variance of a gap.
	dispersion float64
}

const slow = 1e-3 // arrivals a second

// hills returns phases with jumps, up from 0, down to 0, and at 0.
func hills(length time.Duration) []*spatev1.Phase {
	d := durationpb.New(length)
	return []*spatev1.Phase{
		{From: 0, To: new(4 * slow), Duration: d},
		{From: 2 * slow, Duration: d},
		{From: 4 * slow, To: new(slow / 4), Duration: d},
		{From: 0, Duration: d},
		{From: slow / 8, To: new(2 * slow), Duration: d},
		{From: 4 * slow, To: proto.Float64(0), Duration: d},
	}
}

// expectedOf returns the integral of the rate over phases, by textbook formulas.
func expectedOf(phases []*spatev1.Phase) func(float64) float64 {
	return func(t float64) float64 {
		sum := 0.0
		for _, p := range phases {
			d := p.GetDuration().AsDuration().Seconds()
			to := p.GetFrom()
			if p.To != nil {
				to = p.GetTo()
			}
			within := min(t, d)
			sum += p.GetFrom()*within + (to-p.GetFrom())*within*within/(2*d)
			if t -= d; t <= 0 {
				break
			}
		}
		return sum
	}
}

// processes returns the arrival processes of a plan, at a constant rate and over hills.
func processes() map[string]superposed {
	all := make(map[string]superposed)
	for _, c := range []struct {
		name  string
		load  *spatev1.LoadPoint
		shape float64
	}{
		{"constant", &spatev1.LoadPoint{Arrival: "constant"}, math.Inf(1)},
		{"poisson", &spatev1.LoadPoint{Arrival: "poisson"}, 1},
		{"gamma 0.25", &spatev1.LoadPoint{Arrival: "gamma", Burstiness: 0.25}, 0.25},
		{"gamma 0.5", &spatev1.LoadPoint{Arrival: "gamma", Burstiness: 0.5}, 0.5},
		{"gamma 1", &spatev1.LoadPoint{Arrival: "gamma", Burstiness: 1}, 1},
		{"gamma 2", &spatev1.LoadPoint{Arrival: "gamma", Burstiness: 2}, 2},
		{"gamma 4", &spatev1.LoadPoint{Arrival: "gamma", Burstiness: 4}, 4},
	} {
		steady := proto.CloneOf(c.load)
		steady.Rate = slow
		steady = free(steady)
		cdf := func(gap float64) float64 { return gammaCDF(c.shape, gap) }
		all[c.name] = superposed{steady, func(t float64) float64 { return slow * t }, cdf, 1 / c.shape}
		ramp := proto.CloneOf(c.load)
		ramp.Phases = hills(30_000_000 * time.Second)
		all[c.name+" ramps"] = superposed{ramp, expectedOf(ramp.Phases), cdf, 1 / c.shape}
	}
	return all
}

// gammaCDF is the distribution function of gaps of mean 1 and shape k, the regularised incomplete gamma function P(k,
// kx): by its power series for small x, and by the continued fraction of 1 - P elsewhere (Abramowitz and Stegun 6.5.29
// and 6.5.31).
func gammaCDF(k, x float64) float64 {
	if x <= 0 {
		return 0
	}
	x *= k
	logGamma, _ := math.Lgamma(k)
	front := math.Exp(k*math.Log(x) - x - logGamma)
	if x < k+1 {
		term, sum := 1/k, 1/k
		for n := 1.0; term > 1e-17*sum; n++ {
			term *= x / (k + n)
			sum += term
		}
		return front * sum
	}
	fraction := 0.0
	for n := 300.0; n >= 1; n-- {
		fraction = n * (n - k) / (x + 2*n + 1 - k - fraction)
	}
	return 1 - front/(x+1-k-fraction)
}

// arrivals returns the first n arrivals of all agents, measured in expected arrivals.
func (p *superposed) arrivals(t *testing.T, seed, n uint64, weights []uint32) []float64 {
	t.Helper()
	load := proto.CloneOf(p.load)
	load.Requests = n
	all := union(t, load, seed, weights)
	if len(all) != int(n) {
		t.Fatalf("%d arrivals, want %d", len(all), n)
	}
	us := make([]float64, len(all))
	for i, a := range all {
		us[i] = p.expected(a.Offset.Seconds())
	}
	return us
}

// union returns the arrivals of all agents.
func union(t *testing.T, load *spatev1.LoadPoint, seed uint64, weights []uint32) []Arrival {
	t.Helper()
	stripes, err := split(weights)
	if err != nil {
		t.Fatal(err)
	}
	var all []Arrival
	for _, s := range stripes {
		all = append(all, drain(t, load, seed, s)...)
	}
	slices.SortFunc(all, byIndex)
	return all
}

// unequal returns different weights of n agents.
func unequal(n int) []uint32 {
	ws := make([]uint32, n)
	for i := range ws {
		ws[i] = uint32(1 + i*7%10)
	}
	return ws
}

// dispersion returns the index of dispersion of counts: the variance of the number of points per window, divided by its
// mean.
func dispersion(points []float64, window float64, windows int) (index, mean float64) {
	counts := make([]float64, windows)
	for _, u := range points {
		if i := int(u / window); i < windows {
			counts[i]++
		}
	}
	var sum, squares float64
	for _, c := range counts {
		sum += c
		squares += c * c
	}
	mean = sum / float64(windows)
	return (squares/float64(windows) - mean*mean) / mean, mean
}

// kolmogorovSmirnov returns the largest distance between the distribution of the gaps between points and the given
// distribution, times sqrt(n). If the distribution is right, it exceeds 1.95 once in a thousand times.
func kolmogorovSmirnov(points []float64, cdf func(float64) float64) float64 {
	return distance(gapsOf(points), cdf)
}

// distance is kolmogorovSmirnov for the numbers themselves. It sorts them.
func distance(numbers []float64, cdf func(float64) float64) float64 {
	slices.Sort(numbers)
	n := float64(len(numbers))
	var largest float64
	for i, x := range numbers {
		f := cdf(x)
		largest = max(largest, f-float64(i)/n, float64(i+1)/n-f)
	}
	return largest * math.Sqrt(n)
}

// significant is the value that kolmogorovSmirnov exceeds once in a thousand times.
const significant = 1.95

// gapsOf returns the gaps between points, including the gap from 0 to the first point.
func gapsOf(points []float64) []float64 {
	gaps := make([]float64, len(points))
	last := 0.0
	for i, u := range points {
		gaps[i], last = u-last, u
	}
	return gaps
}

// TestSuperpositionIsOneMachinesSchedule: for every process, any number of unequal agents together send what one
// machine would.
func TestSuperpositionIsOneMachinesSchedule(t *testing.T) {
	for name, p := range processes() {
		load := proto.CloneOf(p.load)
		load.Requests = 5000
		one := drain(t, load, 9, whole)
		for _, agents := range []int{1, 2, 3, 10, 64} {
			if all := union(t, load, 9, unequal(agents)); !slices.Equal(all, one) {
				t.Errorf("%s: what %d agents send differs from one machine's schedule", name, agents)
			}
		}
	}
}

// TestGapsAreIndependent: the correlation of each gap with the next is within four standard deviations of 0.
func TestGapsAreIndependent(t *testing.T) {
	const n = 20_000
	for name, p := range processes() {
		if p.load.GetArrival() == "constant" {
			continue
		}
		for seed := range uint64(3) {
			var product, before float64
			for _, gap := range gapsOf(p.arrivals(t, seed, n, unequal(10))) {
				product += (gap - 1) * before
				before = gap - 1
			}
			if r, slack := product/n/p.dispersion, 4/math.Sqrt(n); math.Abs(r) > slack {
				t.Errorf("%s, seed %d: correlation %.4f, want 0 +- %.4f", name, seed, r, slack)
			}
		}
	}
}

// TestWrongProcessesAreSeen is the control for the tests above: they detect what load generators get wrong.
func TestWrongProcessesAreSeen(t *testing.T) {
	all := processes()
	const agents, n, window = 10, 20_000, 100
	share := func(p superposed, seed func(agent uint64) uint64) []float64 {
		load := proto.CloneOf(p.load)
		load.Rate /= agents
		p.load = load
		var points []float64
		for agent := range uint64(agents) {
			points = append(points, p.arrivals(t, seed(agent), n/agents, []uint32{1})...)
		}
		slices.Sort(points)
		return points
	}
	same := share(all["poisson"], func(uint64) uint64 { return 1 })
	if index, _ := dispersion(same, window, n/window*9/10); index < 0.7*agents {
		t.Errorf("%d agents that draw the same Poisson arrivals: index of dispersion %.2f, want about %d", agents,
			index, agents)
	}
	if d := kolmogorovSmirnov(same, all["poisson"].cdf); d < 10*significant {
		t.Errorf("the same arrivals on each agent: distance %.2f is not seen", d)
	}
	for _, name := range []string{"gamma 0.25", "gamma 4"} {
		apart := share(all[name], func(agent uint64) uint64 { return agent })
		if d := kolmogorovSmirnov(apart, all[name].cdf); d < 2*significant {
			t.Errorf("%s made on each agent by itself: distance %.2f is not seen", name, d)
		}
	}
	p := all["poisson ramps"]
	p.load = free(&spatev1.LoadPoint{Rate: 1.5 * slow, Arrival: "poisson"})
	if d := kolmogorovSmirnov(p.arrivals(t, 1, n, []uint32{1}), p.cdf); d < 2*significant {
		t.Errorf("a constant rate in place of ramps: distance %.2f is not seen", d)
	}
	p = all["gamma 2"]
	if d := kolmogorovSmirnov(p.arrivals(t, 1, n, []uint32{1}), all["poisson"].cdf); d < 2*significant {
		t.Errorf("gamma of shape 2 in place of Poisson: distance %.2f is not seen", d)
	}
}

// TestArrivalsArePinned: a seed's schedule must stay the same in later versions and on other processors, so that runs
// are repeatable. The offsets were computed with 60 digits by another program.
func TestArrivalsArePinned(t *testing.T) {
	ramp := []*spatev1.Phase{
		{From: 0, To: proto.Float64(100), Duration: durationpb.New(200 * time.Millisecond)},
		{From: 100, To: proto.Float64(10), Duration: durationpb.New(time.Second)},
	}
	for name, c := range map[string]struct {
		load *spatev1.LoadPoint
		want []time.Duration
	}{
		"poisson": {
			&spatev1.LoadPoint{Rate: 100, Arrival: "poisson"},
			[]time.Duration{11266448, 13198576, 14094923, 19352274, 23261849},
		},
		"poisson, conditioned": {
			&spatev1.LoadPoint{Rate: 100, Arrival: "poisson", Requests: 5},
			[]time.Duration{24216579, 28369576, 30296222, 41596596, 50000000},
		},
		"poisson, conditioned behind 3 requests": {
			&spatev1.LoadPoint{Rate: 100, Arrival: "poisson", WarmupRequests: 3, Requests: 5},
			[]time.Duration{11266448, 13198576, 14094923, 21255980, 26581225, 49901743, 61082644, 64094923},
		},
		"poisson, conditioned behind 15 ms": {
			&spatev1.LoadPoint{Rate: 100, Arrival: "poisson", WarmupDuration: durationpb.New(15 * time.Millisecond),
				Requests: 5},
			[]time.Duration{11266448, 13198576, 14094923, 21078111, 26537975, 50448023, 61911572, 65000000},
		},
		"gamma 0.5": {
			&spatev1.LoadPoint{Rate: 100, Arrival: "gamma", Burstiness: 0.5},
			[]time.Duration{5626602, 27994647, 46681277, 53710880, 59150325},
		},
		"gamma 3": {
			&spatev1.LoadPoint{Rate: 100, Arrival: "gamma", Burstiness: 3},
			[]time.Duration{7859386, 23106208, 31375443, 45695585, 51431242},
		},
		"ramps": {
			&spatev1.LoadPoint{Phases: ramp, Arrival: "poisson"},
			[]time.Duration{
				67131060, 72659688, 75086411, 87982440, 96461077, 127094937, 139415011, 142552241, 153278398, 166752102,
				170549376, 187382839, 191233860,
			},
		},
	} {
		if c.load.Requests == 0 {
			c.load.Duration = durationpb.New(c.want[len(c.want)-1] + 1)
		}
		all := drain(t, c.load, 42, whole)
		if len(all) != len(c.want) {
			t.Fatalf("%s: %d arrivals, want %d", name, len(all), len(c.want))
		}
		for i, a := range all {
			if a.Offset != c.want[i] {
				t.Errorf("%s: arrival %d at %d, want %d", name, i, a.Offset, c.want[i])
			}
		}
	}
}
