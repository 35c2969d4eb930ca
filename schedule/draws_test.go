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

// parts returns the arrivals of each agent.
func parts(t *testing.T, load *spatev1.LoadPoint, seed uint64, weights []uint32) [][]Arrival {
	t.Helper()
	stripes, err := split(weights)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]Arrival
	for _, s := range stripes {
		all = append(all, drain(t, load, seed, s))
	}
	return all
}

// own returns the offsets of arrivals, in units of the mean gap of an agent with a part of the load.
func own(arrivals []Arrival, rate, part float64) []float64 {
	points := make([]float64, len(arrivals))
	for i, a := range arrivals {
		points[i] = a.Offset.Seconds() * rate * part
	}
	return points
}

// variation returns the coefficient of variation of the gaps between points.
func variation(points []float64) float64 {
	var sum, squares float64
	for _, g := range gapsOf(points) {
		sum += g
		squares += g * g
	}
	n := float64(len(points))
	mean := sum / n
	return math.Sqrt(squares/n-mean*mean) / mean
}

// TestEachAgentSeesPoisson: if a load is split at random, each agent's arrivals are a Poisson process at the agent's
// part of the rate. The test checks the distribution of the gaps, their coefficient of variation of 1, and the
// dispersion of counts. All agents together send what one machine would send.
func TestEachAgentSeesPoisson(t *testing.T) {
	const n, window = 60_000, 20
	load := &spatev1.LoadPoint{Rate: slow, Arrival: "poisson", Requests: n, Split: "random"}
	for _, weights := range [][]uint32{{1, 1}, {1, 1, 1}, {5, 3, 2}, unequal(5)} {
		sum := 0.0
		for _, w := range weights {
			sum += float64(w)
		}
		for seed := range uint64(3) {
			var all []Arrival
			for rank, arrivals := range parts(t, load, seed, weights) {
				all = append(all, arrivals...)
				part := float64(weights[rank]) / sum
				if d, slack := float64(len(arrivals))-n*part, 4*math.Sqrt(n*part*(1-part)); math.Abs(d) > slack {
					t.Errorf("%v: agent %d has %d of %d arrivals, %.0f too many, at most %.0f", weights, rank,
						len(arrivals), n, d, slack)
				}
				points := own(arrivals, slow, part)
				if d := kolmogorovSmirnov(points, exponentialCDF); d > significant {
					t.Errorf("%v, seed %d: agent %d: distance %.2f, at most %.2f", weights, seed, rank, d, significant)
				}
				if cv, slack := variation(points), 4/math.Sqrt(float64(len(points))); math.Abs(cv-1) > slack {
					t.Errorf("%v, seed %d: agent %d: coefficient of variation %.3f, want 1 +- %.3f", weights, seed,
						rank, cv, slack)
				}
				windows := len(points) * 9 / 10 / window
				if index, _ := dispersion(points, window,
					windows); math.Abs(index-1) > 4*math.Sqrt(2/float64(windows)) {
					t.Errorf("%v, seed %d: agent %d: index of dispersion %.3f in %d windows", weights, seed, rank,
						index, windows)
				}
			}
			slices.SortFunc(all, byIndex)
			if one := drain(t, load, seed, whole); !slices.Equal(all, one) {
				t.Errorf("%v, seed %d: what the agents send differs from one machine's schedule", weights, seed)
			}
		}
	}
}

func exponentialCDF(x float64) float64 { return 1 - math.Exp(-x) }

// TestDealtArrivalsAreSmoother is the control for TestEachAgentSeesPoisson: arrivals that are dealt in turn to k agents
// are Erlang processes, whose gaps have a coefficient of variation of 1/sqrt(k).
func TestDealtArrivalsAreSmoother(t *testing.T) {
	load := &spatev1.LoadPoint{Rate: slow, Arrival: "poisson", Requests: 60_000, Split: "in_turn"}
	for _, k := range []int{2, 3, 4} {
		for rank, arrivals := range parts(t, load, 1, slices.Repeat([]uint32{1}, k)) {
			points, want := own(arrivals, slow, 1/float64(k)), 1/math.Sqrt(float64(k))
			if cv := variation(points); math.Abs(cv-want) > 0.02 {
				t.Errorf("%d agents: agent %d: coefficient of variation %.3f, want %.3f", k, rank, cv, want)
			}
			if d := kolmogorovSmirnov(points, exponentialCDF); d < 5*significant {
				t.Errorf("%d agents: agent %d: distance %.2f is not seen", k, rank, d)
			}
		}
	}
}

// TestAgentsAreIndependent: the number of arrivals of one agent in a second says nothing about another agent's.
func TestAgentsAreIndependent(t *testing.T) {
	const seconds = 20_000
	load := &spatev1.LoadPoint{Rate: 12, Arrival: "poisson", Duration: durationpb.New(seconds * time.Second),
		Split: "random"}
	all := parts(t, load, 4, []uint32{2, 1, 1})
	counts := make([][]float64, len(all))
	for rank, arrivals := range all {
		counts[rank] = make([]float64, seconds)
		for _, a := range arrivals {
			counts[rank][a.Offset/time.Second]++
		}
	}
	means := []float64{6, 3, 3}
	for a := range counts {
		for b := range a {
			var product float64
			for i := range seconds {
				product += (counts[a][i] - means[a]) * (counts[b][i] - means[b])
			}
			if r, slack := product/seconds/math.Sqrt(means[a]*means[b]), 4/math.Sqrt(seconds); math.Abs(r) > slack {
				t.Errorf("agents %d and %d: correlation %.4f, want 0 +- %.4f", b, a, r, slack)
			}
		}
	}
}

// TestHandedOverArrivalsStayPoisson: an agent is lost and another joins. Each agent's arrivals are Poisson in each part
// of the stage, at the rate of the part that it then has.
func TestHandedOverArrivalsStayPoisson(t *testing.T) {
	const n = 90_000
	load := &spatev1.LoadPoint{Rate: slow, Arrival: "poisson", Requests: n, Split: "random"}
	third := time.Duration(n / 3 / slow * float64(time.Second))
	m := &spatev1.Stripe{Weights: []uint32{1, 1, 2}, Handovers: []*spatev1.Handover{
		{FromRank: 2, Weights: []uint32{1, 1}, FromNs: int64(third)},
		{FromRank: 0, Weights: []uint32{2, 0, 0, 1}, FromNs: int64(2 * third)},
		{FromRank: 1, Weights: []uint32{0, 2, 0, 1}, FromNs: int64(2 * third)},
	}}
	rates := [][]float64{{1. / 4, 1. / 2, 1. / 3}, {1. / 4, 1. / 2, 1. / 3}, {1. / 2, 0, 0}, {0, 0, 1. / 3}}
	total := 0
	for rank := range rates {
		stripe := proto.CloneOf(m)
		stripe.Rank = uint32(rank)
		all := rest(t, revisable(t, load, 7, shareOf(t, stripe)))
		total += len(all)
		for i, rate := range rates[rank] {
			begin := time.Duration(i) * third
			part := slices.DeleteFunc(slices.Clone(all), func(a Arrival) bool {
				return a.Offset < begin ||
					a.Offset >= begin+third
			})
			if rate == 0 {
				if len(part) > 0 {
					t.Errorf("rank %d has %d arrivals in part %d", rank, len(part), i)
				}
				continue
			}
			for k := range part {
				part[k].Offset -= begin
			}
			if d := kolmogorovSmirnov(own(part, slow, rate), exponentialCDF); d > significant {
				t.Errorf("rank %d in part %d: distance %.2f, at most %.2f", rank, i, d, significant)
			}
		}
	}
	if total != n {
		t.Errorf("%d arrivals of all ranks, want %d", total, n)
	}
}

// TestDrawingDoesNotAllocate walks through a random share with a handover.
func TestDrawingDoesNotAllocate(t *testing.T) {
	s := shareOf(t, &spatev1.Stripe{Weights: []uint32{3, 1, 2},
		Handovers: []*spatev1.Handover{{FromRank: 1, Weights: []uint32{1, 0, 2}}}})
	s.draws = drawsOf(&spatev1.LoadPoint{Split: "random"}, 1)
	i := uint64(0)
	if n := testing.AllocsPerRun(1000, func() { s.owns(i, time.Duration(i)); i++ }); n != 0 {
		t.Errorf("%v allocations an arrival", n)
	}
}
