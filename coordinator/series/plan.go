package series

import "math"

// The choice of the search's loads. Bisection by the geometric mean halves the logarithm of broke/kept: n probes narrow
// the ratio f to f^(1/2^n).

// up returns the next load of the way up, within the bounds.
func (s *search) up(kept float64) float64 {
	v := s.round(kept * s.factor)
	if s.integer {
		v = max(v, kept+1)
	}
	if v <= kept || v*(1+s.precision) >= s.to {
		return s.to // a step shorter than the precision says nothing
	}
	return v
}

// split returns a load between kept and broke. A probe of an open loop that broke often shows where the knee is: the
// throughput of a saturated server is its capacity. That estimate is tried first.
func (s *search) split(kept, broke float64) float64 {
	if v := s.estimate(kept, broke); v > kept && v < broke {
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

// rounding returns the largest relative error of a rounded rate.
func (s *search) rounding() float64 { return 0.5 * math.Pow10(1-s.digits) }
