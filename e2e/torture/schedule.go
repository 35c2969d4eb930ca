package torture

import (
	"fmt"
	"time"

	"github.com/spate-load/spate/agent/arrival"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// schedule is what a stage's plan asks for, as far as it can be told without the server's answers.
type schedule struct {
	known  bool // whether the set of requests is
	open   bool
	asked  map[uint64]time.Duration // due at; closed loop: 0
	owners map[uint64][]int         // places in the record's agents that had the request, in the order of handovers; open loop: whose it is in the end
}

// scheduleOf works out what a stage asked for.
func scheduleOf(rec *spatev1.StageRecord) (schedule, error) {
	load := rec.GetStage().GetLoad()
	s := schedule{open: load.GetConcurrency() == 0, asked: map[uint64]time.Duration{}, owners: map[uint64][]int{}}
	places := placesOf(rec)
	if len(places) == 0 {
		return s, nil
	}
	s.known = s.open || load.GetRequests() > 0
	if s.open {
		return s, s.listOpen(rec, places)
	}
	for i := range load.GetRequests() + load.GetWarmupRequests() {
		s.asked[i] = 0
	}
	return s, nil
}

// placesOf are the agents of the record that have a place in the stripe.
func placesOf(rec *spatev1.StageRecord) []int {
	var places []int
	for i, a := range rec.GetAgents() {
		if !a.GetObserver() {
			places = append(places, i)
		}
	}
	return places
}

// stripeOf is a place's stripe.
func stripeOf(rec *spatev1.StageRecord, places []int, rank int) *spatev1.Stripe {
	s := &spatev1.Stripe{Rank: uint32(rank), Handovers: rec.GetHandovers()}
	for _, i := range places {
		if a := rec.GetAgents()[i]; a.GetJoinedNs() == 0 {
			s.Weights = append(s.Weights, a.GetWeight())
		}
	}
	return s
}

// listOpen plays the whole schedule of each place.
func (s *schedule) listOpen(rec *spatev1.StageRecord, places []int) error {
	for rank, agent := range places {
		share, err := arrival.NewShare(stripeOf(rec, places, rank))
		if err != nil {
			return fmt.Errorf("stage %d: place %d: %w", rec.GetStage().GetIndex(), rank, err)
		}
		open, err := arrival.NewOpen(rec.GetStage().GetLoad(), rec.GetStage().GetSeed(), share)
		if err != nil {
			return err
		}
		for a, more := open.Next(); more; a, more = open.Next() {
			s.asked[a.Index] = a.Offset
			s.owners[a.Index] = append(s.owners[a.Index], agent)
		}
	}
	return nil
}

// ownersOf are those who may have had a request: of an open loop the one whose it is. Of a closed loop they are worked out here: request i
// is of slot i modulo the concurrency, which is of a place by the weights, and then of those that the place's requests were handed to.
func (s *schedule) ownersOf(rec *spatev1.StageRecord, index uint64) []int {
	if s.open {
		return s.owners[index]
	}
	places := placesOf(rec)
	slot := index % uint64(rec.GetStage().GetLoad().GetConcurrency())
	had := map[int]bool{}
	for rank := range places {
		stripe, err := arrival.NewStripe(stripeOf(rec, places, rank).GetWeights(), rank)
		if err != nil {
			continue // a place that joined has none of its own
		}
		if next, ok := stripe.Next(slot); ok && next == slot {
			had[rank] = true
		}
	}
	for _, h := range rec.GetHandovers() {
		for rank, w := range h.GetWeights() {
			if had[int(h.GetFromRank())] && w > 0 {
				had[rank] = true
			}
		}
	}
	var out []int
	for rank, agent := range places {
		if had[rank] {
			out = append(out, agent)
		}
	}
	return out
}
