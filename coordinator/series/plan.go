package series

import "math"

// The choice of the search's probes. Bisection by the geometric mean halves the logarithm of broke/kept: n probes
// narrow the ratio f to f^(1/2^n). In a bracket [from, to], k equal steps up leave a ratio of f = (to/from)^(1/k) to
// bisect.

// stepUp returns the next load of the bracket: twice the last load if the remaining probes suffice for the worst case,
// else a larger factor with which they do. If possible, one probe is kept for an estimate, see split.
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

// cheapest returns the factor that needs the fewest probes in the worst case. It is used when no factor has enough
// probes.
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

// up returns a higher load, within the bounds.
func (s *search) up(kept, factor float64) float64 {
	v := s.round(kept * factor)
	if s.integer {
		v = max(v, kept+1)
	}
	if v <= kept || v*(1+s.precision) >= s.to {
		return s.to // a step shorter than the precision says nothing
	}
	return v
}

// split returns a load between kept and broke. A probe of an open loop that broke often shows where the knee is: the
// throughput of a saturated server is its capacity. That estimate is tried first, if the remaining probes then still
// suffice for bisection in either case.
func (s *search) split(kept, broke float64, left int) float64 {
	if v := s.estimate(kept, broke); v > kept && v < broke &&
		1+max(s.bisections(kept, v), s.bisections(v, broke)) <= left {
		return v
	}
	if v := s.round(math.Sqrt(kept * broke)); v > kept && v < broke {
		return v
	}
	if s.integer {
		return kept + 1 // below broke: else the bracket would be narrow
	}
	return math.Sqrt(kept * broke)
}

// estimate returns a load on the side of the estimated knee that has not been probed. 0: there is no estimate, or
// nothing to learn from it.
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

// bisections returns how many probes it takes to narrow a bracket to the precision in the worst case.
func (s *search) bisections(kept, broke float64) int {
	// Rounding moves both ends.
	target := max(math.Log1p(s.precision)-2*s.rounding(), math.Log1p(s.precision)/2)
	n := math.Ceil(math.Log2(math.Log(broke/kept)/target) - 1e-9)
	if s.integer {
		n = min(n, math.Ceil(math.Log2(max(1, broke-kept))))
	}
	return int(max(0, n))
}

// rounding returns the largest relative error of a rounded rate.
func (s *search) rounding() float64 { return 0.5 * math.Pow10(1-s.digits) }
