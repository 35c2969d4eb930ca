package schedule

import (
	"math"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// This file has the arrival processes: how far apart the arrivals of an open loop are, in units of their mean.

// gaps is a sequence of independent gaps between arrivals, in units of their mean.
type gaps interface {
	// At returns the gap before arrival i. It is a pure function of the seed and i, and never negative.
	At(i uint64) float64
}

// newGaps returns the gaps of a load's arrival process, nil for constant ones.
func newGaps(load *spatev1.LoadPoint, seed uint64) gaps {
	random := draw.New(seed, "arrivals")
	switch load.GetArrival() {
	case "constant":
		return nil
	case "gamma":
		return newGammaGaps(load.GetBurstiness(), random)
	}
	return exponentialGaps{random}
}

// GapShape returns the shape of an open loop's gaps between arrivals: 1 / their variance in units of their mean. It is
// 1 for Poisson arrivals, less if arrivals are burstier, more if they are smoother, and 0 if the gaps do not vary or
// the load has no arrival process. The number of arrivals in a long time has the index of dispersion 1 / shape.
func GapShape(load *spatev1.LoadPoint) float64 {
	switch load.GetArrival() {
	case "poisson":
		return 1
	case "gamma":
		return load.GetBurstiness()
	}
	return 0
}

// exponentialGaps are the gaps of a Poisson process: gap i is -ln(1 - U_i), where U_i is number i of the sequence.
type exponentialGaps struct{ random draw.Sequence }

func (e exponentialGaps) At(i uint64) float64 { return draw.Exponential(e.random.At(i)) }

// gammaGaps have the gamma distribution of shape k and mean 1, so scale 1/k. At a rate r the gaps have shape k and
// scale 1/(r k), as with vLLM's --burstiness k. Their variance is 1/k: k = 1 is the exponential distribution, a smaller
// k is burstier, a larger k smoother.
//
// Arrivals with such gaps are a renewal process. Its counts in long windows also have an index of dispersion of 1/k.
// The first gap begins at the start of the stage, each later gap at the previous arrival.
type gammaGaps struct {
	random  draw.Sequence
	d, c    float64 // of Marsaglia and Tsang
	boost   float64 // 1/k if k < 1; 0: none
	inverse float64 // 1/k
}

// newGammaGaps computes what all gaps have in common.
func newGammaGaps(shape float64, random draw.Sequence) *gammaGaps {
	g := &gammaGaps{random: random, inverse: 1 / shape}
	if shape < 1 {
		g.boost = 1 / shape
		shape++
	}
	g.d = shape - 1.0/3
	g.c = 1 / math.Sqrt(9*g.d)
	return g
}

// At uses the method of Marsaglia and Tsang ("A simple method for generating gamma variables", 2000). With d = k -
// 1/3, c = 1/sqrt(9d), x normal and v = (1 + cx)^3, d v has the gamma distribution of shape k >= 1 if it is accepted
// with probability exp(x^2/2 + d - dv + d ln v), which is above 1 - 0.0331 x^4. For k < 1, a value of shape k + 1 times
// U^(1/k) has shape k.
//
// Each arrival has its own random sequence, from which At takes as many numbers as it needs, so that no gap depends on
// another.
func (g *gammaGaps) At(i uint64) float64 {
	random := stream{sequence: g.random.Sub(i)}
	v := g.cube(&random)
	gap := g.d * v * g.inverse
	if g.boost != 0 {
		gap *= draw.Exp(-draw.Exponential(random.next()) * g.boost)
	}
	return gap
}

// cube returns an accepted v.
func (g *gammaGaps) cube(random *stream) float64 {
	for {
		x := random.normal()
		root := 1 + float64(g.c*x)
		if root <= 0 {
			continue
		}
		v := float64(root * root * root)
		u := random.fraction()
		square := x * x
		if u < 1-float64(0.0331*square*square) ||
			draw.Log(u) < float64(0.5*square)+float64(g.d*(1-v+draw.Log(v))) {
			return v
		}
	}
}

// stream reads a sequence from its start.
type stream struct {
	sequence draw.Sequence
	read     uint64
}

func (s *stream) next() uint64 {
	n := s.sequence.At(s.read)
	s.read++
	return n
}

// normal returns a standard normal number, by Marsaglia's polar method: a sqrt(-2 ln s / s) with s = a^2 + b^2, for
// points (a, b) uniform in the unit disc.
func (s *stream) normal() float64 {
	for {
		a, b := s.signed(), s.signed()
		if q := float64(a*a) + float64(b*b); q < 1 && q > 0 {
			return a * math.Sqrt(-2*draw.Log(q)/q)
		}
	}
}

// signed returns a uniform number from -1 to 1.
func (s *stream) signed() float64 { return float64(int64(s.next())) * (1.0 / (1 << 63)) }

// fraction returns a uniform number between 0 and 1, exclusive.
func (s *stream) fraction() float64 { return float64(s.next()>>12|1) * (1.0 / (1 << 52)) }

// splitRandom is the value of LoadPoint.split with which arrivals are not dealt in turn.
const splitRandom = "random"

// draws are the random numbers that assign arrivals to ranks.
//
// If a Poisson process is dealt in turn to k equal agents, each agent's arrivals are an Erlang process, whose gaps have
// a coefficient of variation of 1/sqrt(k) instead of 1. If instead each arrival goes to a random rank, independently
// and with a probability proportional to the rank's weight, each rank's arrivals are a Poisson process, and those of
// different ranks are independent (Kingman, "Poisson Processes", 1993, 5.1, the colouring theorem). Arrivals that a
// handover passes on are coloured again, so the same holds for the receiving ranks.
//
// Number i of a sequence decides about arrival i: sequence 0 by the weights, sequence h+1 for handover h. So the owner
// depends only on the seed, the arrival and the handovers, and all ranks together own each arrival exactly once.
type draws struct{ sequences draw.Sequence }

// drawsOf returns the draws of a load, nil if its arrivals are dealt in turn.
func drawsOf(load *spatev1.LoadPoint, seed uint64) *draws {
	if load.GetSplit() != splitRandom {
		return nil
	}
	return &draws{draw.New(seed, "split")}
}

// seat returns a number that selects the seat of arrival i in a pattern: a seat drawn from a sequence, or k if arrivals
// are dealt in turn.
func (d *draws) seat(sequence int, i, k, cycle uint64) uint64 {
	if d == nil {
		return k
	}
	return d.of(sequence).Below(i, cycle)
}

// count returns how many arrivals with indices in [from, below) are drawn for a stripe by the weights. A billion take a
// few seconds.
func (d *draws) count(base *Stripe, from, below uint64) (n uint64) {
	if base.Empty() {
		return 0
	}
	own, seats := make([]uint8, base.Cycle()), d.of(0)
	for _, seat := range base.Own() {
		own[seat] = 1
	}
	for i := from; i < below; i++ {
		n += uint64(own[seats.Below(i, base.Cycle())]) // avoids an unpredictable branch
	}
	return n
}

// of returns the sequence of the weights (0) or of handover h (h+1).
func (d *draws) of(sequence int) draw.Sequence { return d.sequences.Sub(uint64(sequence)) }
