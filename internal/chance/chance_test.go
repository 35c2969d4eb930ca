package chance

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Tails, quantiles and variances are those of a library that the program does not link.
func TestStudentsT(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for _, freedom := range []float64{1, 1.5, 2, 3.7, 10, 250, 1e5} {
		theirs := distuv.StudentsT{Sigma: 1, Nu: freedom}
		for _, x := range []float64{-20, -1.3, -1e-3, 0, 1e-6, 0.7, 2, 9, 40} {
			near("above", above(x, freedom), theirs.Survival(x))
		}
		for _, p := range []float64{0.501, 0.8, 0.975, 0.9995} {
			near("quantile", quantile(p, freedom), theirs.Quantile(p))
		}
	}
	values := []float64{1e6 + 1, 1e6 + 2.5, 1e6 - 3, 1e6}
	near("variance", variance(values), stat.Variance(values, nil))
	near("mean", mean(values), stat.Mean(values, nil))
}

// correlated returns a series in which each value remembers the share memory of the one before it.
func correlated(n int, memory float64, seed uint64) []float64 {
	random := rand.New(rand.NewPCG(seed, 1))
	values, last := make([]float64, n), 0.0
	for i := range values {
		last = memory*last + random.NormFloat64()
		values[i] = last
	}
	return values
}

// The spread is that of the bootstrap that it replaces: resampling blocks at random and taking the mean of each sample
// gives the same variance, less the factor for few blocks.
func TestSeriesIsTheBootstrap(t *testing.T) {
	values := correlated(240, 0.6, 7)
	const block, samples = 24, 40_000
	spread, ok := Series(values, block)
	if !ok || spread.Block != block {
		t.Fatalf("spread %+v, want blocks of %d", spread, block)
	}
	random := rand.New(rand.NewPCG(3, 3))
	means := make([]float64, samples)
	for i := range means {
		for range len(values) / block {
			from := random.IntN(len(values))
			for k := range block {
				means[i] += values[(from+k)%len(values)] / float64(len(values))
			}
		}
	}
	blocks := float64(len(values)) / block
	want := stat.PopStdDev(means, nil) * math.Sqrt(blocks/(blocks-1))
	if math.Abs(spread.Error/want-1) > 0.02 {
		t.Errorf("error %v, want that of the bootstrap %v", spread.Error, want)
	}
}

// The interval of the mean of a correlated series holds the truth about as often as it says, which it would not if the
// values counted as independent.
func TestSeriesKnowsNeighbours(t *testing.T) {
	const runs, confidence = 1000, 0.95
	held, heldNaively := 0, 0
	for seed := range uint64(runs) {
		values := correlated(240, 0.7, seed)
		mean := math.Abs(stat.Mean(values, nil))
		if spread, ok := Series(values, 1); ok && mean <= spread.Margin(confidence) {
			held++
		}
		if mean <= 1.96*stat.StdErr(stat.StdDev(values, nil), float64(len(values))) {
			heldNaively++
		}
	}
	if held < 910 || heldNaively > 700 {
		t.Errorf("%d of %d intervals hold the truth, want about 950 (as independent values %d)", held, runs, heldNaively)
	}
}

// Independent values need no blocks; values that remember need longer ones.
func TestBlockLength(t *testing.T) {
	for _, c := range []struct {
		memory      float64
		least, most float64
	}{{0, 1, 3}, {0.5, 4, 12}, {0.9, 15, 45}} {
		sum := 0.0
		for seed := range uint64(50) {
			sum += float64(BlockLength(correlated(240, c.memory, seed)))
		}
		if got := sum / 50; got < c.least || got > c.most {
			t.Errorf("memory %v: blocks of %v on average, want %v to %v", c.memory, got, c.least, c.most)
		}
	}
}

// A series of equal values has no spread, and one that is too short has none that is known.
func TestSeriesAtItsEnds(t *testing.T) {
	if s, ok := Series(make([]float64, 100), 1); !ok || s.Error != 0 || s.Beyond(0.1, 0) != 0 || s.Beyond(0, 0) != 1 {
		t.Errorf("equal values: spread %+v %v, p %v and %v", s, ok, s.Beyond(0.1, 0), s.Beyond(0, 0))
	}
	if s, ok := Series(correlated(100, 0, 1), 21); ok {
		t.Errorf("fewer than %d blocks have the spread %+v", FewestBlocks, s)
	}
}

// The example of Holm's method: the smallest p times the number of tests, and so on, never falling.
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("test %d: adjusted to %v, want %v", i, got[i], want)
		}
	}
	if got := Holm(nil); len(got) != 0 {
		t.Errorf("no tests are adjusted to %v", got)
	}
}

// Shares of counts have the interval of Agresti and Caffo, calculated by hand for 11 of 15 and 3 of 15.
func TestShares(t *testing.T) {
	difference, s := Shares(11, 15, 3, 15)
	if math.Abs(difference-8.0/17) > 1e-12 || math.Abs(s.Error-0.15099) > 1e-5 || s.Freedom != 32 {
		t.Errorf("%v, %+v", difference, s)
	}
	if _, s := Shares(0, 1000, 0, 100); s.Error == 0 {
		t.Error("shares of 0 are certain")
	}
}

// Welch's spread of two groups, calculated by hand: t = 6.75 / 1.25, variances 1 of 3 and 4.9167 of 4 values.
func TestRepeats(t *testing.T) {
	a, b := []float64{10, 12, 11}, []float64{15, 19, 17, 20}
	s := Repeats(a, b)
	if got := (stat.Mean(b, nil) - stat.Mean(a, nil)) / s.Error; math.Abs(got-5.4) > 1e-9 {
		t.Errorf("t = %v, want 5.4", got)
	}
	if math.Abs(s.Freedom-4.366106080206984) > 1e-9 {
		t.Errorf("%v degrees of freedom, want 4.3661", s.Freedom)
	}
	if s := Repeats([]float64{1, 1, 1}, []float64{2, 2, 2}); s.Error != 0 || s.Freedom != 4 {
		t.Errorf("equal repeats have the spread %+v", s)
	}
}

// A change within the tolerance is never certain to be beyond it.
func TestBeyondATolerance(t *testing.T) {
	s := Spread{Error: 0.001, Freedom: 20}
	if p := s.Beyond(0.01, 0.02); p < 0.99 {
		t.Errorf("1 %% within 2 %%: p = %v", p)
	}
	if p := s.Beyond(0.03, 0.02); p > 1e-6 {
		t.Errorf("3 %%, ten errors beyond 2 %%: p = %v", p)
	}
	if p := s.Beyond(0, 0); p != 1 {
		t.Errorf("no change: p = %v", p)
	}
}

// What stages differ by beyond their own chance widens the spread, and costs degrees of freedom; less widens nothing.
func TestBoth(t *testing.T) {
	within := Spread{Error: 1, Freedom: 30, Block: 7}
	if s := Both(within, Spread{Error: 0.5, Freedom: 3}); s != within {
		t.Errorf("stages that differ less than chance: %+v", s)
	}
	s := Both(within, Spread{Error: 3, Freedom: 3})
	if math.Abs(s.Error-3) > 1e-12 || math.Abs(s.Freedom-81/(1.0/30+64.0/3)) > 1e-12 || s.Block != 7 {
		t.Errorf("stages that differ more: %+v", s)
	}
	if s := Both(Spread{Freedom: 4}, Spread{Freedom: 3}); s.Error != 0 || s.Freedom != 4 {
		t.Errorf("no spread at all: %+v", s)
	}
}

// A slope that was taken out costs one block.
func TestFitted(t *testing.T) {
	got := Spread{Error: 2, Freedom: 1.5*10 - 1, Block: 3}.Fitted()
	if math.Abs(got.Error-2*math.Sqrt(9.0/8)) > 1e-12 || got.Freedom != 12.5 || got.Block != 3 {
		t.Errorf("%+v", got)
	}
}
