package ready

import (
	"math"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestPartOfTheRate(t *testing.T) {
	for name, c := range map[string]struct {
		stripe *spatev1.Stripe
		want   float64
	}{
		"alone":          {&spatev1.Stripe{Weights: []uint32{7}}, 1},
		"one of two":     {&spatev1.Stripe{Weights: []uint32{3, 1}, Rank: 1}, 0.25},
		"not yet joined": {&spatev1.Stripe{Weights: []uint32{3, 1}, Rank: 2}, 0},
		"joined": {&spatev1.Stripe{Weights: []uint32{3, 1}, Rank: 2, Handovers: []*spatev1.Handover{
			{FromRank: 0, Weights: []uint32{2, 0, 1}}, {FromRank: 1, Weights: []uint32{0, 2, 2}},
		}}, 0.375},
		"took over": {&spatev1.Stripe{Weights: []uint32{1, 1, 2},
			Handovers: []*spatev1.Handover{{FromRank: 2, Weights: []uint32{1, 1}}}}, 0.5},
		"gave": {&spatev1.Stripe{Weights: []uint32{3, 1},
			Handovers: []*spatev1.Handover{{FromRank: 0, Weights: []uint32{0, 1}}}}, 0.75},
		"no giver": {&spatev1.Stripe{Weights: []uint32{3, 1},
			Handovers: []*spatev1.Handover{{FromRank: 9, Weights: []uint32{1}}}}, 0.75},
		"nothing": {&spatev1.Stripe{}, 0},
	} {
		if got := largestPart(c.stripe); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}
