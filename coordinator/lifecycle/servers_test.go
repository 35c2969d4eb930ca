package lifecycle

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Each source has exactly one reader, whatever agents joined or were lost since. Observers and newcomers read no
// sources, and sources are spread evenly.
func TestEachSourceHasOneReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := rapid.IntRange(0, 70).Draw(t, "endpoints")
		target := &spatev1.Target{Endpoints: make([]string, sources), ServerMetrics: &spatev1.ServerMetrics{}}
		s := &stage{record: &spatev1.StageRecord{Stage: &spatev1.Stage{Target: target}}}
		for range rapid.IntRange(1, 9).Draw(t, "agents") {
			s.shares = append(s.shares, &share{})
		}
		for range rapid.IntRange(0, 3).Draw(t, "others") {
			s.shares = append(s.shares, &share{observer: true}, &share{joined: 1})
		}
		s.shares[0].failure = "lost"
		var all []uint32
		least, most := sources, 0
		for _, p := range s.shares {
			of := s.serverSources(p)
			all = append(all, of...)
			if p.observer || p.joined > 0 {
				if len(of) > 0 {
					t.Fatalf("%v for one who was not there", of)
				}
				continue
			}
			least, most = min(least, len(of)), max(most, len(of))
		}
		slices.Sort(all)
		if len(all) != min(sources, 64) || len(slices.Compact(all)) != len(all) || most-least > 1 {
			t.Fatalf("%v, from %d to %d each", all, least, most)
		}
		if of := s.serverSources(&share{}); of != nil {
			t.Fatalf("%v for a newcomer", of)
		}
	})
}

func TestNobodyReadsWhatIsNotAskedFor(t *testing.T) {
	p := &share{}
	s := &stage{record: &spatev1.StageRecord{Stage: &spatev1.Stage{Target: &spatev1.Target{
		Endpoints: []string{"http://e"}, ServerMetrics: &spatev1.ServerMetrics{Read: "never"},
	}}}, shares: []*share{p}}
	if of := s.serverSources(p); of != nil {
		t.Errorf("%v", of)
	}
}
