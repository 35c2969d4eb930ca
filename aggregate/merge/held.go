package merge

import (
	"math"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A snapshot goes into several tallies: the whole stage, its region, its endpoint, and their windows. With a thousand
// agents, adding each snapshot to each tally would be most of the coordinator's work, so snapshots of agents are held
// until somebody reads the tallies or mostHeld have come. Each is then merged once, and the sum is added to each tally.

// mostHeld bounds the number of series that are held. More would save little, and block readers for longer. Tally.full
// leaves room for their values.
const mostHeld = 128

// fewHeld is the largest number of series in a cell that are added to each tally one by one: that takes less time than
// merging first.
const fewHeld = 2

// cell names what goes into the same tallies: measurements of one endpoint, part and window by the agents of one
// region.
type cell struct {
	region   *Region
	name     string // of the region
	window   uint32 // see shown
	endpoint uint32
	part     uint32 // of the mixture
}

// unshown is the window of all cells whose window cannot be viewed any more: they go into the same tallies.
const unshown = math.MaxUint32

// shown returns a window if it can still be viewed, and unshown if it cannot.
func (s *Stage) shown(window uint32) uint32 {
	if window < s.forgotten || s.hidden {
		return unshown
	}
	return window
}

// held holds series that are not in the tallies yet. They are kept apart by cell.
type held struct {
	cells  map[cell]pending
	number int
	sum    *Tally // of one cell; its memory is reused
}

// hold adds one endpoint's measurements of one snapshot to what is held.
func (s *Stage) hold(c cell, series pendingSeries) {
	s.held.cells[c] = append(s.held.cells[c], series)
	if s.held.number++; s.held.number >= mostHeld {
		s.settle()
	}
}

// lock locks the stage to read tallies. It adds to them what is held.
func (s *Stage) lock() {
	s.mu.Lock()
	s.settle()
}

// settle adds what is held to the tallies.
func (s *Stage) settle() {
	for c, of := range s.held.cells {
		if len(of) <= fewHeld {
			for _, one := range of {
				s.spread(c, func(t *Tally) { t.add(one.series, one.parts, one.at) })
			}
			continue
		}
		s.held.sum.reset()
		for _, one := range of {
			s.held.sum.add(one.series, one.parts, one.at)
		}
		s.spread(c, func(t *Tally) { t.Include(s.held.sum) })
	}
	clear(s.held.cells)
	s.held.number = 0
}

// spread calls add with each tally to which a cell belongs.
func (s *Stage) spread(c cell, add func(*Tally)) {
	add(&c.region.Tally)
	add(c.region.Paths[c.endpoint])
	add(s.sums.Total)
	add(s.sums.Endpoints[c.endpoint])
	if s.sums.Parts != nil {
		add(s.sums.Parts[c.part])
	}
	if w := s.sums.Windows[c.window]; w != nil && w.live != nil {
		w.live.spread(c, add)
	}
}

// spread calls add with each tally of the window to which a cell belongs.
func (w *liveWindow) spread(c cell, add func(*Tally)) {
	add(w.total)
	add(addTo(w.regions, c.name, regionMetrics))
	if w.parts != nil {
		add(w.parts[c.part])
	}
	if c.endpoint >= shownEndpoints {
		return
	}
	if w.endpoints[c.endpoint] == nil {
		w.endpoints[c.endpoint] = newTally(keyMetrics)
	}
	add(w.endpoints[c.endpoint])
}

// pending holds, unmerged, what one agent delivered of a window that can still be viewed. Since an agent sends only one
// snapshot per window, merging early saves nothing, and separate histograms for each of a thousand agents would cost
// more than everything else.
type pending []pendingSeries

// pendingSeries is one endpoint's measurements of one snapshot.
type pendingSeries struct {
	series *spatev1.Series
	parts  []part
	at     place
}

// add adds one endpoint's measurements of one snapshot.
func (p *pending) add(series *spatev1.Series, parts []part, at place) {
	*p = append(*p, pendingSeries{series, parts, at})
}

// measured summarizes the series. It overwrites the tally by, which must not be in use.
func (p *pending) measured(by *Tally) Measured {
	by.reset()
	for _, s := range *p {
		by.add(s.series, s.parts, s.at)
	}
	return by.Measured()
}

// reset empties a tally and keeps its memory.
func (t *Tally) reset() {
	t.windows = 0
	t.Counters = &spatev1.Counters{}
	t.Models = nil
	clear(t.errors)
	for _, values := range t.Values {
		if values != nil {
			values.Reset()
		}
	}
}
