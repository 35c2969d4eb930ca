package series

import (
	"cmp"
	"math"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// How many votes decide.
const (
	// lead is by how many votes the loads of the answer must be ahead: each of them was probed at least twice.
	lead = 2
	// obvious is how much a probe counts that even its fastest requests broke, or in which the server fell far behind:
	// two of them are enough wherever the search is.
	obvious = 5
	// behind is the share of the requests due of which fewer end only if a server is far from keeping up.
	behind = 0.7
	// risk is the most that chance may explain of what says that a load is too high.
	risk = 0.001
	// prior is what is believed of bad moments before any probe: as if one of five probes had met one.
	prior = 5
	// hopeless is how many votes say that not even the lowest load is within the limits, below which nothing was
	// probed.
	hopeless = 3
	// near is the share within which the lead alone decides: there it matters less which load it is.
	near = 0.06
)

// FastestPercentile is the percentile of the fastest requests in Outcome.Fastest.
const FastestPercentile = 5

// votes returns how much a probe counts.
func votes(keep *spatev1.Objectives, o Outcome, reason string) int {
	if reason == "" || rank(o.Verdict) > rank("VALID") {
		return 1
	}
	if b := o.Backlog; o.Aborted != "" || o.Completed == 0 || b != nil && float64(b.Ended) < behind*b.Due {
		return obvious
	}
	for i, limit := range keep.GetLatencies() {
		if i < len(o.Fastest) && o.Fastest[i] != nil && *o.Fastest[i] > limit.GetAtMost().AsDuration() {
			return obvious
		}
	}
	return 1
}

// level is a load with the votes of its probes.
type level struct {
	load          float64
	keeps, breaks int
	broken        int  // probes that broke
	doubtful      bool // a probe that broke has a measurement in doubt
}

// tally is what the probes say together. A limit between two neighbouring levels is contradicted by the probes that
// kept above it and by those that broke below it. The limit is where the fewest votes contradict it.
//
// This is the most likely place of a step if each probe is wrong with the same chance. By it the answer is the load at
// which most probes keep: where half of them do, the votes are even.
type tally struct {
	*search
	levels  []level
	against []int   // votes against a limit between levels i-1 and i
	best    int     // where the fewest are
	kept    float64 // the level below the limit; 0: there is none
	broke   float64 // the level above the limit; 0: there is none
}

// tally counts the votes.
func (s *search) tally() *tally {
	t := &tally{search: s}
	for _, p := range s.done {
		i, found := slices.BinarySearchFunc(t.levels, p.value, func(l level, v float64) int {
			return cmp.Compare(l.load, v)
		})
		if !found {
			t.levels = slices.Insert(t.levels, i, level{load: p.value})
		}
		l := &t.levels[i]
		if p.reason == "" {
			l.keeps += p.votes
			continue
		}
		l.breaks, l.broken, l.doubtful = l.breaks+p.votes, l.broken+1, l.doubtful || p.doubtful()
	}
	t.against = make([]int, len(t.levels)+1)
	for i := range t.against {
		for j, l := range t.levels {
			if j < i {
				t.against[i] += l.breaks
			} else {
				t.against[i] += l.keeps
			}
		}
	}
	t.best = slices.Index(t.against, slices.Min(t.against))
	if t.best > 0 {
		t.kept = t.levels[t.best-1].load
	}
	if t.best < len(t.levels) {
		t.broke = t.levels[t.best].load
	}
	return t
}

// doubted returns the load to probe again before others: where the votes are even, where a measurement is in doubt, and
// where chance may explain that the highest load of all is too high. 0: there is none.
func (t *tally) doubted() float64 {
	for i, n := range t.against {
		if i != t.best && n == t.against[t.best] {
			return t.broke // best is the first of them
		}
	}
	switch b := t.best; {
	case b == len(t.levels):
		return 0
	case t.levels[b].doubtful && t.levels[b].breaks-t.levels[b].keeps < lead:
		return t.broke
	case b == len(t.levels)-1:
		return t.above(t.broke, t.enough())
	}
	return 0
}

// unconfirmed returns the load to probe again before the search ends. 0: there is none.
func (t *tally) unconfirmed() float64 {
	if t.broke > 0 {
		if t.levels[t.best].broken < lead {
			return t.broke
		}
		if v := cmp.Or(t.above(t.broke, lead), t.above(t.fence(), t.enough())); v > 0 {
			return v
		}
	}
	for _, n := range t.against[:t.best] {
		if n-t.against[t.best] < lead {
			return t.kept
		}
	}
	return 0
}

// above returns where to probe so that no limit at or above a load has fewer votes against it than the best one and a
// lead. 0: nowhere.
func (t *tally) above(fence float64, lead int) float64 {
	least, at := t.against[t.best]+lead, 0.0
	for i := t.best + 1; i < len(t.against); i++ {
		if t.against[i] < least && t.reaches(i, fence) {
			least, at = t.against[i], max(fence, t.levels[i-1].load)
		}
	}
	return at
}

// reaches reports whether the levels that limit i lies between include loads at or above a fence, by more than the
// precision.
func (t *tally) reaches(i int, fence float64) bool {
	slack := t.precision
	if t.integer {
		slack = 0
	}
	return i == len(t.levels) || t.levels[i].load > fence*(1+slack)
}

// fence returns the load from which on more than the lead is needed, somewhat above the lowest that broke. If no higher
// load was probed, it is that load itself.
func (t *tally) fence() float64 {
	if t.best == len(t.levels)-1 || t.best == 0 {
		return t.broke
	}
	v := t.broke * (1 + max(near, 2*t.precision))
	if t.integer {
		v = math.Ceil(v)
	}
	return min(t.round(v), t.to)
}

// enough returns how many votes chance does not explain. After b of n probes below met a bad moment, the next one does
// with (b + 1) / (n + prior), by the rule of succession with this prior. So many votes in a row are less likely than
// the risk.
func (t *tally) enough() (votes int) {
	if t.best == 0 {
		return hopeless
	}
	bad, probes := 1.0, float64(prior)
	for _, l := range t.levels[:t.best] {
		bad, probes = bad+float64(l.broken), probes+float64(l.keeps+l.broken)
	}
	for chance := 1.0; chance > risk; votes++ {
		chance *= (bad + float64(votes)) / (probes + float64(votes))
	}
	return max(lead, votes)
}
