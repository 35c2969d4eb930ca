package merge

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

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
