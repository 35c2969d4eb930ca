package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// maxTokens is the default maximum length of a distribution.
const maxTokens = 1 << 24

// rareSigmas is the number of standard deviations above the mean that a normal number exceeds with a chance of 1 in
// 10^9. An unbounded distribution is taken to end there.
const rareSigmas = 6

// lengths are numbers of tokens. Number i is a function of the seed, the purpose and i, and does not depend on the
// content.
//
// Machines may round the last bit of a logarithm differently. About one in 10^10 lengths of a normal or lognormal
// distribution can therefore differ by a token between processor architectures.
type lengths struct {
	numbers draw.Sequence
	shape   shape
}

// shape is a distribution of lengths.
type shape interface {
	// length returns number i of a sequence as a length.
	length(numbers draw.Sequence, i uint64) uint32
	// longest returns the length that no length, or only one in 10^9, exceeds.
	longest() uint32
	// shortest returns the length that no length is below.
	shortest() uint32
}

// at returns length i.
func (l lengths) at(i uint64) uint32 { return l.shape.length(l.numbers, i) }

// of returns the lengths of item i, for items that have many lengths.
func (l lengths) of(i uint64) lengths { return lengths{l.numbers.Sub(i), l.shape} }

// newLengths returns lengths of a shape for one purpose.
func newLengths(s shape, seed uint64, purpose string) lengths {
	return lengths{draw.New(seed, "lengths", purpose), s}
}

// shapeOf returns the distribution of one field, given as a fixed number or as lengths. Exactly one must be given.
func shapeOf(field string, number uint32, l *spatev1.Lengths) (shape, error) {
	switch {
	case l == nil && number == 0:
		return nil, fmt.Errorf("workload: %s is missing: give a number of at least 1 or a distribution of lengths",
			field)
	case l == nil:
		return fixed(number), nil
	case number != 0:
		return nil, fmt.Errorf("workload: %s is %d and also has a distribution of lengths: leave one out",
			field, number)
	}
	s, err := distribution(l)
	if err != nil {
		return nil, fmt.Errorf("workload: lengths of %s: %w", field, err)
	}
	return s, nil
}

// distribution returns the distribution that a plan's lengths name.
func distribution(l *spatev1.Lengths) (shape, error) {
	switch d := l.GetDistribution().(type) {
	case *spatev1.Lengths_Uniform:
		return newUniform(d.Uniform.GetMin(), d.Uniform.GetMax())
	case *spatev1.Lengths_Normal:
		return newNormal(d.Normal, false)
	case *spatev1.Lengths_Lognormal:
		return newNormal(d.Lognormal, true)
	case *spatev1.Lengths_Empirical:
		return newEmpirical(d.Empirical.GetValues())
	default:
		return nil, errors.New("unknown distribution: give uniform, normal, lognormal or empirical")
	}
}

// fixed is one length.
type fixed uint32

func (f fixed) length(draw.Sequence, uint64) uint32 { return uint32(f) }
func (f fixed) longest() uint32                     { return uint32(f) }
func (f fixed) shortest() uint32                    { return uint32(f) }

// uniform is a range in which all lengths are equally likely.
type uniform struct {
	min uint32
	n   uint64 // number of lengths
}

func newUniform(from, to uint32) (shape, error) {
	if from == 0 || from > to {
		return nil, fmt.Errorf("uniform: min is %d and max is %d: min must be at least 1 and max at least min",
			from, to)
	}
	return uniform{from, uint64(to-from) + 1}, nil
}

// rangeAround returns the range of a length and a ratio as vLLM's random dataset defines it: whole numbers from floor(n
// x (1-r)) to ceil(n x (1+r)), at least 1, all equally likely. It computes in float64 as vLLM does, so that 100 and 0.1
// end at 111.
func rangeAround(n uint32, ratio float64) shape {
	from := math.Floor(float64(n) * (1 - ratio))
	to := math.Ceil(float64(n) * (1 + ratio))
	return uniform{uint32(max(from, 1)), uint64(to-max(from, 1)) + 1}
}

func (u uniform) length(numbers draw.Sequence, i uint64) uint32 {
	return u.min + uint32(numbers.Below(i, u.n))
}
func (u uniform) longest() uint32  { return u.min + uint32(u.n-1) }
func (u uniform) shortest() uint32 { return u.min }

// normal is the normal distribution, rounded and clamped to min and max. With log, the logarithm is normally
// distributed.
type normal struct {
	mean, sigma float64 // of the logarithm with log
	log         bool
	min, max    uint32
}

// newNormal takes mean m and standard deviation s of the lengths themselves. The mean mu and standard deviation sigma
// of a lognormal number's logarithm follow from its moments (Johnson, Kotz, Balakrishnan: Continuous Univariate
// Distributions 1, chapter 14),
//
//	m = exp(mu + sigma^2/2),  s^2 = m^2 (exp(sigma^2) - 1),
//
// solved: sigma^2 = ln(1 + s^2/m^2), mu = ln m - sigma^2/2.
func newNormal(d *spatev1.NormalLengths, log bool) (shape, error) {
	n := normal{mean: d.GetMean(), sigma: d.GetStddev(), log: log, min: max(d.GetMin(), 1),
		max: cmp.Or(d.GetMax(), maxTokens)}
	if n.min > n.max {
		return nil, fmt.Errorf("min %d is greater than max %d: swap them", n.min, n.max)
	}
	if !(n.mean > 0 && n.sigma >= 0) || math.IsInf(n.mean+n.sigma, 0) {
		return nil, fmt.Errorf("mean is %v and stddev is %v: mean must be above 0, stddev at least 0, and both finite",
			n.mean, n.sigma)
	}
	if log {
		ratio := n.sigma / n.mean
		variance := math.Log1p(ratio * ratio)
		n.mean, n.sigma = math.Log(n.mean)-variance/2, math.Sqrt(variance)
	}
	return n, nil
}

// length inverts the distribution function: mean + sigma x sqrt(2) x erfinv(2u-1).
func (n normal) length(numbers draw.Sequence, i uint64) uint32 {
	return n.atSigmas(math.Sqrt2 * math.Erfinv(2*numbers.Unit(i)-1))
}

// atSigmas returns the length that lies z standard deviations above the mean, clamped to min and max.
func (n normal) atSigmas(z float64) uint32 {
	x := n.mean + n.sigma*z
	if n.log {
		x = math.Exp(x)
	}
	return uint32(min(max(math.Round(x), float64(n.min)), float64(n.max)))
}

func (n normal) longest() uint32 { return n.atSigmas(rareSigmas) }

func (n normal) shortest() uint32 {
	if n.sigma == 0 {
		return n.atSigmas(0)
	}
	return n.min
}

// empirical is a list of lengths, drawn with equal frequency.
type empirical []uint32

func newEmpirical(values []uint32) (shape, error) {
	if len(values) == 0 || slices.Contains(values, 0) {
		return nil, fmt.Errorf("empirical: values are %v: give at least one, all above 0", values)
	}
	return empirical(slices.Clone(values)), nil
}

func (e empirical) length(numbers draw.Sequence, i uint64) uint32 {
	return e[numbers.Below(i, uint64(len(e)))]
}
func (e empirical) longest() uint32  { return slices.Max(e) }
func (e empirical) shortest() uint32 { return slices.Min(e) }

// LongestRequest returns the length in tokens, prompt and output together, of a workload's longest request. The length
// comes from the plan, or else from the rows, if there are any. With a normal or lognormal distribution that is not
// bounded, at most one request in 10^9 is longer. Known is false if neither tells the length, as with images, or if New
// would refuse the workload.
func LongestRequest(w *spatev1.Workload, rows *spatev1.Dataset) (tokens uint32, known bool) {
	switch content := w.GetContent().(type) {
	case *spatev1.Workload_Random:
		isl, osl, err := shapesOf(content.Random)
		if err != nil {
			return 0, false
		}
		if content.Random.GetImages() != nil {
			return 0, false
		}
		return sum(isl.longest(), osl.longest())
	case *spatev1.Workload_Sonnet:
		return sum(content.Sonnet.GetIsl(), content.Sonnet.GetOsl())
	case *spatev1.Workload_Sessions:
		s := content.Sessions
		turns, isl, osl, err := sessionShapes(s)
		if err != nil {
			return 0, false
		}
		return uint32(longestSession(s.GetSystem(), turns, isl, osl)), true
	default:
		return rows.GetLongest(), rows.GetLongest() > 0
	}
}

// sum adds a prompt and an output, and saturates at the largest uint32.
func sum(isl, osl uint32) (tokens uint32, known bool) {
	return uint32(min(uint64(isl)+uint64(osl), math.MaxUint32)), true
}

// ShortestPrompt returns the length in tokens of the shortest prompt of a workload, if the plan tells it. With a normal
// or lognormal distribution that is not bounded, at most one prompt in 10^9 is shorter.
func ShortestPrompt(w *spatev1.Workload) (tokens uint32, known bool) {
	var isl shape
	var err error
	switch content := w.GetContent().(type) {
	case *spatev1.Workload_Random:
		isl, _, err = shapesOf(content.Random)
	case *spatev1.Workload_Sessions:
		if content.Sessions.GetSystem() > 0 {
			return 0, false
		}
		_, isl, _, err = sessionShapes(content.Sessions)
	default:
		return 0, false
	}
	if err != nil {
		return 0, false
	}
	if n, ok := isl.(normal); ok {
		return n.atSigmas(-rareSigmas), true
	}
	return isl.shortest(), true
}
