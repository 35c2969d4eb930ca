package series

import "math"

// The search's plan of probes. Bisection by the geometric mean halves the logarithm of broke/kept: n probes narrow the
// ratio f to f^(1/2^n). From a bracket [from, to] k equal steps up leave a ratio of f = (to/from)^(1/k) to bisect.

// stepUp is the next load of the bracket: twice the last, as long as the probes that are left suffice for the worst
// case; else the smallest larger factor with which they do. One probe is left over for an estimate if it can be, see
// split.
func (s *search) stepUp(kept float64, left int) float64 {
	ratio := s.to / kept
	doublings := int(math.Ceil(math.Log2(ratio) - 1e-9))
	for spare := 1; spare >= 0; spare-- {
		if doublings+s.bisections(kept, 2*kept)+spare <= left {
			return s.up(kept, 2)
		}
		for steps := doublings - 1; steps > 0; steps-- {
			f := math.Pow(ratio, 1/float64(steps))
			if steps+s.bisections(kept, f*kept)+spare <= left {
				return s.up(kept, f)
			}
		}
	}
	return s.up(kept, s.cheapest(kept, doublings))
}

// cheapest is the factor with the fewest probes in the worst case, when there are not enough of them for any.
func (s *search) cheapest(kept float64, doublings int) float64 {
	best, fewest := 2.0, doublings+s.bisections(kept, 2*kept)
	for steps := doublings - 1; steps > 0; steps-- {
		f := math.Pow(s.to/kept, 1/float64(steps))
		if n := steps + s.bisections(kept, f*kept); n < fewest {
			best, fewest = f, n
		}
	}
	return best
}

// up is a load above, within the bounds.
func (s *search) up(kept, factor float64) float64 {
	v := s.round(kept * factor)
	if s.integer {
		v = max(v, kept+1)
	}
	if v <= kept || v*(1+s.precision) >= s.to {
		return s.to // a step that is shorter than the precision tells nothing
	}
	return v
}

// split is a load between. A failed probe of an open loop often tells where the knee is: what a saturated server
// completed is what it can do. That is tried first, as long as the probes that are left suffice for bisection whatever
// comes of it.
func (s *search) split(kept, broke float64, left int) float64 {
	if v := s.estimate(kept, broke); v > kept && v < broke &&
		1+max(s.bisections(kept, v), s.bisections(v, broke)) <= left {
		return v
	}
	if v := s.round(math.Sqrt(kept * broke)); v > kept && v < broke {
		return v
	}
	if s.integer {
		return kept + 1 // there is one: else the bracket were narrow
	}
	return math.Sqrt(kept * broke)
}

// estimate is a load at the side of the estimated knee that is still open. 0: there is no estimate, or nothing to learn
// from it.
func (s *search) estimate(kept, broke float64) float64 {
	if s.integer {
		return 0 // a closed loop completes what it asks for
	}
	throughput := s.at(broke)[0].outcome.Throughput
	if throughput == nil || *throughput >= broke/(1+s.precision) {
		return 0 // not saturated
	}
	below := s.round(*throughput * (1 - s.precision/2))
	margin := 1 + s.precision/4
	switch {
	case below > kept*margin && below < broke/margin:
		return below
	case below <= kept*margin && *throughput < kept*(1+2*s.precision):
		return s.round(kept * (1 + s.precision) * (1 - 2*s.rounding()))
	}
	return 0
}

// bisections is how many probes narrow a bracket to the precision in the worst case.
func (s *search) bisections(kept, broke float64) int {
	// Rounding moves each end.
	target := max(math.Log1p(s.precision)-2*s.rounding(), math.Log1p(s.precision)/2)
	n := math.Ceil(math.Log2(math.Log(broke/kept)/target) - 1e-9)
	if s.integer {
		n = min(n, math.Ceil(math.Log2(max(1, broke-kept))))
	}
	return int(max(0, n))
}

// rounding is the largest relative error of a rounded rate.
func (s *search) rounding() float64 { return 0.5 * math.Pow10(1-s.digits) }

// round makes a load that can be asked for.
func (s *search) round(v float64) float64 {
	if s.integer {
		return math.Round(v)
	}
	return rounded(v, s.digits)
}
