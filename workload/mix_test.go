package workload

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// At the end of each cycle the split is exact, and at the end of each block within half an arrival for each other part.
// No arrival of a part is missing or twice.
func TestSplitIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenths := rapid.Map(rapid.IntRange(1, 400), func(n int) float64 { return float64(n) / 10 })
		weights := rapid.SliceOfN(tenths, 2, 8).Draw(t, "weights")
		m, err := newMix(rapid.Uint64().Draw(t, "seed"), weights)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		counts := make([]uint64, len(weights))
		seen := map[string]bool{}
		for i := range 30 * m.block {
			part, number := m.Of(i)
			counts[part]++
			if key := fmt.Sprint(part, " ", number); seen[key] {
				t.Fatalf("arrival %d is number %d of part %d, and so was an earlier one", i, number, part)
			} else {
				seen[key] = true
			}
			if (i+1)%m.block != 0 {
				continue
			}
			for p, n := range counts {
				due, most := float64(i+1)*weights[p]/sum, float64(len(weights)-1)/2+1e-6
				if (i+1)%m.pattern.Cycle() == 0 {
					most = 1e-6
				}
				if math.Abs(float64(n)-due) >= most {
					t.Fatalf("part %d has %d of %d arrivals, due are %v", p, n, i+1, due)
				}
				if n > 0 && !seen[fmt.Sprint(p, " ", n-1)] {
					t.Fatalf("part %d has %d arrivals, but not number %d", p, n, n-1)
				}
			}
		}
	})
}

// A part with nearly all the weight gets what the many small ones do not have yet.
func TestManySmallParts(t *testing.T) {
	weights := []float64{0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 40}
	m, err := newMix(0, weights)
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for i := range m.block {
		if part, _ := m.Of(i); part == 6 {
			last++
		}
	}
	if due := 100 * 40 / 40.9; last-due < 2 || last-due > 3 {
		t.Errorf("%v of %d arrivals, due are %v", last, m.block, due)
	}
}

// Round numbers of requests are split exactly by weights in per cent.
func TestRoundNumbers(t *testing.T) {
	m, err := newMix(7, []float64{0.7, 0.2, 0.1})
	if err != nil {
		t.Fatal(err)
	}
	var counts [3]int
	for i := range uint64(1000) {
		part, _ := m.Of(i)
		counts[part]++
	}
	if counts != [3]int{700, 200, 100} {
		t.Errorf("1,000 arrivals are split into %v", counts)
	}
}

// Parts do not repeat in step with agents that take arrivals in turn: each agent gets each part.
func TestPartsDoNotRepeatInStepWithAgents(t *testing.T) {
	m, err := newMix(3, []float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	const arrivals = 2000
	first := 0
	for i := uint64(0); i < arrivals; i += 2 {
		if part, _ := m.Of(i); part == 0 {
			first++
		}
	}
	// The standard deviation is 16: the half of a thousand draws lies within 6 of them.
	if first < 404 || first > 596 {
		t.Errorf("of every second of %d arrivals, %d belong to the first of two equal parts", arrivals, first)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		weights []float64
		want    string
	}{
		{[]float64{1, 2}, ""},
		{[]float64{0.3333, 0.6667}, ""},
		{[]float64{70, 30.5}, ""},
		{[]float64{1, 0}, "weight 2 is 0"},
		{[]float64{1, math.NaN()}, "weight 2 is NaN"},
		{[]float64{0.12345, 1}, "weight 1 is 0.12345: it must be a positive number of at most four decimals"},
		{[]float64{1e6, 0.0001}, "too far apart"},
		{[]float64{1000001, 999999}, "too far apart"},
	} {
		err := CheckWeights(c.weights)
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: %v, want %q", c.weights, err, c.want)
		}
	}
}
