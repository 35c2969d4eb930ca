package aggregate

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// pending is what came from one agent in a window that is still to be shown, as it came. An agent sends one snapshot a
// window: histograms of its own for each of a thousand agents would cost more than all the rest.
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

// measured sums up, by way of a tally that is used for nothing else meanwhile.
func (p *pending) measured(by *tally) Measured {
	by.reset()
	for _, s := range *p {
		by.add(s.series, s.parts, s.at)
	}
	return by.measured()
}

// reset forgets what a tally has and keeps its memory.
func (t *tally) reset() {
	t.windows = 0
	t.counters = &spatev1.Counters{}
	clear(t.errors)
	for _, values := range t.values {
		if values != nil {
			values.Reset()
		}
	}
}
