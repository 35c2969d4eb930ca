package executor

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// balanceOf returns a stage's balance over some endpoints. Its prompts begin with one of five prefixes.
func balanceOf(t testing.TB, kind string, endpoints int, seed uint64) *balance {
	t.Helper()
	stage := &spatev1.Stage{Seed: seed, Target: &spatev1.Target{Balance: kind, Endpoints: make([]string, endpoints)}}
	content, err := workload.New(workload.Config{Seed: seed, Form: workload.TokenIDs,
		Workload: &spatev1.Workload{Content: &spatev1.Workload_Random{
			Random: &spatev1.RandomContent{Isl: 20, Osl: 1,
				Prefix: &spatev1.Prefix{Length: 10, Groups: 5}},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	return newBalance(stage, content)
}

// endpointsOf returns the endpoints of the first arrivals.
func endpointsOf(t testing.TB, b *balance, n int) []int {
	t.Helper()
	var all []int
	for i := range n {
		at, err := b.Endpoint(uint64(i))
		if err != nil || at < 0 || at >= int(b.endpoints) {
			t.Fatalf("arrival %d: endpoint %d of %d, %v", i, at, b.endpoints, err)
		}
		all = append(all, at)
	}
	return all
}

func TestEndpointsOfArrivals(t *testing.T) {
	if got := endpointsOf(t, balanceOf(t, "", 3, 1), 7); !slices.Equal(got, []int{0, 1, 2, 0, 1, 2, 0}) {
		t.Errorf("in turn: %v", got)
	}
	one, same, other := endpointsOf(t, balanceOf(t, "random", 4, 1), 4000),
		endpointsOf(t, balanceOf(t, "random", 4, 1), 4000), endpointsOf(t, balanceOf(t, "random", 4, 2), 4000)
	if !slices.Equal(one, same) || slices.Equal(one, other) {
		t.Error("what is drawn is not a function of the seed and the index")
	}
	counts := make([]int, 4)
	for _, at := range one {
		counts[at]++
	}
	for _, n := range counts {
		if n < 900 || n > 1100 { // six standard deviations are 164
			t.Errorf("4000 draws: %v", counts)
			break
		}
	}
}

// Prompts with the same prefix go to one endpoint, and requests without a group go round robin.
func TestAffinityIsByPrefix(t *testing.T) {
	b := balanceOf(t, "affinity", 3, 7)
	of := map[uint64]int{}
	for i, at := range endpointsOf(t, b, 500) {
		group, grouped, err := workload.Group(b.content, uint64(i))
		if !grouped || err != nil {
			t.Fatalf("arrival %d: %v, %v", i, grouped, err)
		}
		if before, known := of[group]; known && before != at {
			t.Fatalf("group %d goes to %d and to %d", group, before, at)
		}
		of[group] = at
	}
	if len(of) != 5 {
		t.Errorf("groups %v", of)
	}
	b.content = nil
	if got := endpointsOf(t, b, 4); !slices.Equal(got, []int{0, 1, 2, 0}) {
		t.Errorf("without groups: %v", got)
	}
}

// The endpoint with the fewest requests in flight is chosen, whichever requests end.
func TestLeastOutstanding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		endpoints := rapid.IntRange(1, 6).Draw(rt, "endpoints")
		b := balanceOf(t, "least_outstanding", endpoints, 1)
		flown, inFlight := make([]int, endpoints), []int{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if n := len(inFlight); n > 0 && rapid.Bool().Draw(rt, "one ends") {
				i := rapid.IntRange(0, n-1).Draw(rt, "which")
				b.Done(inFlight[i])
				flown[inFlight[i]]--
				inFlight = slices.Delete(inFlight, i, i+1)
				continue
			}
			at := b.Take()
			if flown[at] != slices.Min(flown) {
				rt.Fatalf("endpoint %d of %v", at, flown)
			}
			flown[at]++
			inFlight = append(inFlight, at)
		}
	})
	b := balanceOf(t, "least_outstanding", 3, 1)
	var got []int
	for range 6 {
		at := b.Take()
		b.Done(at)
		got = append(got, at)
	}
	if !slices.Equal(got, []int{0, 1, 2, 0, 1, 2}) {
		t.Errorf("of equals not in turn: %v", got)
	}
}

func BenchmarkBalance(bench *testing.B) {
	b := balanceOf(bench, "", 3, 1)
	bench.ReportAllocs()
	for i := uint64(0); bench.Loop(); i++ {
		if at, err := b.Endpoint(i); at > 2 || err != nil {
			bench.Fatal(at, err)
		}
	}
}
