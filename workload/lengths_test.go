package workload

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func uniformOf(from, to uint32) *spatev1.Lengths {
	return &spatev1.Lengths{Distribution: &spatev1.Lengths_Uniform{Uniform: &spatev1.UniformLengths{Min: from,
		Max: to}}}
}

func normalOf(mean, stddev float64, from, to uint32) *spatev1.Lengths {
	return &spatev1.Lengths{Distribution: &spatev1.Lengths_Normal{
		Normal: &spatev1.NormalLengths{Mean: mean, Stddev: stddev, Min: from, Max: to},
	}}
}

func lognormalOf(mean, stddev float64, from, to uint32) *spatev1.Lengths {
	return &spatev1.Lengths{Distribution: &spatev1.Lengths_Lognormal{
		Lognormal: &spatev1.NormalLengths{Mean: mean, Stddev: stddev, Min: from, Max: to},
	}}
}

func empiricalOf(values ...uint32) *spatev1.Lengths {
	return &spatev1.Lengths{Distribution: &spatev1.Lengths_Empirical{
		Empirical: &spatev1.EmpiricalLengths{Values: values},
	}}
}

// shaped returns lengths of a valid distribution.
func shaped(t rapid.TB, l *spatev1.Lengths, seed uint64) lengths {
	t.Helper()
	s, err := shapeOf("isl", 0, l)
	if err != nil {
		t.Fatal(err)
	}
	return newLengths(s, seed, "test")
}

// sampled returns the first n lengths.
func sampled(l lengths, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(l.at(uint64(i)))
	}
	return out
}

// moments returns mean and standard deviation.
func moments(x []float64) (mean, stddev float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		stddev += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, math.Sqrt(stddev)
}

// farthest is the Kolmogorov-Smirnov statistic for whole numbers: the largest distance between the share of lengths <=
// x and cdf(x).
func farthest(x []float64, cdf func(float64) float64) float64 {
	slices.Sort(x)
	d := 0.0
	for i, v := range x {
		if i+1 == len(x) || x[i+1] != v {
			d = max(d, math.Abs(float64(i+1)/float64(len(x))-cdf(v)))
		}
	}
	return d
}

// phi is the distribution function of the standard normal distribution.
func phi(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// TestLengthsDistributed checks mean, standard deviation and distribution of 200,000 lengths. Mean and deviation may be
// 5 standard errors off: that of the mean is s/sqrt(n), that of the deviation s x sqrt((k-1)/4n) with k the kurtosis.
// The distribution may be off by 1.95/sqrt(n) at most, which chance exceeds in 1 of 1,000 cases (Kolmogorov; fewer for
// whole numbers). The seeds are fixed.
func TestLengthsDistributed(t *testing.T) {
	const n = 200_000
	logSigma := math.Sqrt(math.Log(1 + 0.5*0.5))
	logMu := math.Log(1000) - logSigma*logSigma/2
	for name, c := range map[string]struct {
		lengths        *spatev1.Lengths
		mean, stddev   float64
		kurtosis       float64
		cdf            func(x float64) float64
		least, longest uint32
	}{
		"uniform": {
			uniformOf(100, 299), 199.5, math.Sqrt((200*200 - 1) / 12.0), 1.8,
			func(x float64) float64 { return (x - 99) / 200 }, 100, 299,
		},
		"normal": {
			normalOf(1000, 100, 0, 0), 1000, 100, 3,
			func(x float64) float64 { return phi((x + 0.5 - 1000) / 100) }, 1, 1600,
		},
		// Kurtosis of a lognormal distribution: w^4 + 2w^3 + 3w^2 - 3 with w = exp(sigma^2) = 1.25.
		"lognormal": {
			lognormalOf(1000, 500, 0, 0), 1000, 500, 1.25*1.25*1.25*1.25 + 2*1.25*1.25*1.25 + 3*1.25*1.25 - 3,
			func(x float64) float64 { return phi((math.Log(x+0.5) - logMu) / logSigma) }, 1,
			uint32(math.Round(math.Exp(logMu + 6*logSigma))),
		},
		"empirical": {
			empiricalOf(1, 3, 3, 5), 3, math.Sqrt2, 2,
			func(x float64) float64 { return map[float64]float64{1: 0.25, 3: 0.75, 5: 1}[x] }, 1, 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := shaped(t, c.lengths, 3)
			x := sampled(l, n)
			mean, stddev := moments(x)
			if want := c.mean; math.Abs(mean-want) > 5*c.stddev/math.Sqrt(n) {
				t.Errorf("mean %.3f, want %.3f", mean, want)
			}
			// Rounding adds a variance of 1/12.
			if math.Abs(stddev-c.stddev) > 5*c.stddev*math.Sqrt((c.kurtosis-1)/(4*n))+1/(24*c.stddev) {
				t.Errorf("standard deviation %.3f, want %.3f", stddev, c.stddev)
			}
			if d := farthest(x, c.cdf); d > 1.95/math.Sqrt(n) {
				t.Errorf("distribution is %.5f off, at most %.5f allowed", d, 1.95/math.Sqrt(n))
			}
			if l.shape.shortest() != c.least || l.shape.longest() != c.longest {
				t.Errorf("from %d to %d, want %d to %d", l.shape.shortest(), l.shape.longest(), c.least, c.longest)
			}
		})
	}
}

// TestLengthsClamped: a length beyond an end becomes that end, in the share that the distribution gives, within 5
// standard errors.
func TestLengthsClamped(t *testing.T) {
	const n = 100_000
	logSigma := math.Sqrt(math.Log(1.04))
	for name, c := range map[string]struct {
		lengths     *spatev1.Lengths
		least, most float64
		want        float64 // share of the shortest: all lengths that round to it or lie below
	}{
		"normal": {normalOf(100, 20, 90, 110), 90, 110, phi(-9.5 / 20)},
		"lognormal": {lognormalOf(100_000, 20_000, 90_000, 110_000), 90_000, 110_000,
			phi((math.Log(0.9) + logSigma*logSigma/2) / logSigma)},
	} {
		x := sampled(shaped(t, c.lengths, 5), n)
		slices.Sort(x)
		if x[0] != c.least || x[n-1] != c.most {
			t.Errorf("%s: from %v to %v, want %v to %v", name, x[0], x[n-1], c.least, c.most)
		}
		shortest, _ := slices.BinarySearch(x, c.least+1)
		if got := float64(shortest) / n; math.Abs(got-c.want) > 5*math.Sqrt(c.want*(1-c.want)/n) {
			t.Errorf("%s: a share of %.4f is cut off to the shortest, want %.4f", name, got, c.want)
		}
	}
}

// TestRanged: the ends are those of vLLM's random dataset, as Python's float arithmetic computes them.
func TestRanged(t *testing.T) {
	for _, c := range []struct {
		n        uint32
		ratio    float64
		from, to uint32
	}{
		{1024, 0, 1024, 1024}, {1024, 0.5, 512, 1536}, {1000, 0.999, 1, 1999}, {100, 0.1, 90, 111}, {1, 0.5, 1, 2},
		{3, 0.9, 1, 6},
		{1 << 24, 0.5, 1 << 23, 3 << 23},
	} {
		got := rangeAround(c.n, c.ratio)
		if got.shortest() != c.from || got.longest() != c.to {
			t.Errorf("%d and %v: from %d to %d, want %d to %d", c.n, c.ratio, got.shortest(), got.longest(),
				c.from, c.to)
		}
	}
}

// distributions draws any valid distribution.
var distributions = rapid.Custom(func(t *rapid.T) *spatev1.Lengths {
	from := rapid.Uint32Range(1, 200).Draw(t, "min")
	to := from + rapid.Uint32Max(200).Draw(t, "width")
	mean, stddev := rapid.Float64Range(1, 300).Draw(t, "mean"), rapid.Float64Range(0, 300).Draw(t, "stddev")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return uniformOf(from, to)
	case 1:
		return normalOf(mean, stddev, from, to)
	case 2:
		return lognormalOf(mean, stddev, from, to)
	default:
		values := rapid.SliceOfN(rapid.Uint32Range(1, 400), 1, 20).Draw(t, "values")
		return empiricalOf(values...)
	}
})

// TestLengthsPure: lengths lie within the ends, depend on the place and not on the order of calls, and differ between
// purposes.
func TestLengthsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, seed := distributions.Draw(t, "lengths"), rapid.Uint64().Draw(t, "seed")
		l := shaped(t, d, seed)
		at := rapid.SliceOfN(rapid.Uint64(), 1, 20).Draw(t, "places")
		var once []uint32
		for _, i := range at {
			n := l.at(i)
			if n < l.shape.shortest() || n > 400 || n == 0 {
				t.Fatalf("length %d is %d, beyond %d to %d", i, n, l.shape.shortest(), l.shape.longest())
			}
			once = append(once, n)
		}
		again := shaped(t, d, seed)
		for k, i := range slices.Backward(at) {
			if n := again.at(i); n != once[k] {
				t.Fatalf("length %d is once %d and once %d", i, once[k], n)
			}
		}
	})
}

func TestLengthsRefused(t *testing.T) {
	for name, l := range map[string]*spatev1.Lengths{
		"no distribution":   {},
		"uniform backwards": uniformOf(5, 4),
		"uniform from 0":    uniformOf(0, 4),
		"normal backwards":  normalOf(10, 1, 5, 4),
		"no mean":           normalOf(0, 1, 0, 0),
		"negative stddev":   lognormalOf(1, -1, 0, 0),
		"NaN":               normalOf(math.NaN(), 1, 0, 0),
		"infinite":          lognormalOf(1, math.Inf(1), 0, 0),
		"no values":         empiricalOf(),
		"value 0":           empiricalOf(1, 0),
	} {
		if s, err := shapeOf("isl", 0, l); err == nil {
			t.Errorf("%s: accepted as %v", name, s)
		}
	}
	if _, err := shapeOf("isl", 5, uniformOf(1, 2)); err == nil {
		t.Error("a number and lengths: accepted")
	}
}

// BenchmarkLengths draws one length.
func BenchmarkLengths(b *testing.B) {
	for name, l := range map[string]*spatev1.Lengths{
		"uniform": uniformOf(1, 1000), "normal": normalOf(1000, 100, 0, 0), "lognormal": lognormalOf(1000, 100, 0, 0),
		"empirical": empiricalOf(1, 2, 3),
	} {
		b.Run(name, func(b *testing.B) {
			x := shaped(b, l, 1)
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				x.at(i)
			}
		})
	}
}

// TestShortestPrompt: the shortest prompt of a plan, where the plan tells it.
func TestShortestPrompt(t *testing.T) {
	for name, tt := range map[string]struct {
		w    *spatev1.Workload
		want uint32
	}{
		"fixed":     {withContent(&spatev1.RandomContent{Isl: 7, Osl: 1}), 7},
		"ranged":    {withContent(&spatev1.RandomContent{Isl: 100, Osl: 1, RangeRatio: 0.1}), 90},
		"lognormal": {withContent(&spatev1.RandomContent{IslLengths: lognormalOf(1000, 100, 0, 0), Osl: 1}), 547},
		"sessions":  {chat(&spatev1.SessionContent{Turns: 2, Isl: 9, Osl: 4}), 9},
		"system":    {chat(&spatev1.SessionContent{Turns: 2, Isl: 9, Osl: 4, System: 3}), 0},
		"trace":     {mooncakeOf(), 0},
		"nothing":   {withContent(&spatev1.RandomContent{}), 0},
	} {
		if got, known := ShortestPrompt(tt.w); got != tt.want || known != (tt.want > 0) {
			t.Errorf("%s: %d, %v", name, got, known)
		}
	}
}
