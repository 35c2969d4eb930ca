package headline

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spate-load/spate/internal/words"
)

// target says what targets can take of each workload; of a single one also what a user feels there.
func (w *writer) target() error {
	for _, c := range w.curves[:min(len(w.curves), most)] {
		if err := w.carried(c, len(w.curves) == 1); err != nil {
			return err
		}
	}
	if more := len(w.curves) - most; more > 0 {
		w.doubt("%s in the tables", words.Count(uint64(more), "more workload"))
	}
	return nil
}

// carried says what a target can take of a workload. alone: it is the only one.
func (w *writer) carried(c *curve, alone bool) error {
	of := ""
	if !alone {
		of = " of " + c.workload
	}
	kept, broke, limited := c.within()
	switch {
	case len(c.points) == 1:
		return w.oneLoad(c, of)
	case limited:
		return w.limited(c, kept, broke, of)
	}
	peak, at := c.peak(), c.enough()
	carried, err := w.carries(c, peak)
	text := fmt.Sprintf("%s carries at most %s%s, at %s", c.target, carried, of, peak.load)
	switch top := c.points[len(c.points)-1]; {
	case at == nil:
		at, text = peak, fmt.Sprintf("%s carries %s%s at %s, the most of %d loads", c.target, carried, of, peak.load,
			len(c.points))
	case at == top && !top.Trust.Behind():
		before := c.points[len(c.points)-2]
		text = fmt.Sprintf("%s carries %s%s at %s, the highest load measured; it rises from %s at %s, so its peak may be higher",
			c.target, carried, of, top.load, number(c.throughput(before)), before.load)
	case at != peak:
		text += fmt.Sprintf("; %s carries %s already", at.load, number(c.throughput(at)))
	}
	w.say("%s", text)
	if w.Rest(at.of...); alone {
		w.say("%s", capital(at.feels()))
	}
	return err
}

// fewest is the number of requests from which on they show a rate.
const fewest = 20

// oneLoad says what was measured at the only load, which is not what the target can take.
func (w *writer) oneLoad(c *curve, of string) error {
	p := c.points[0]
	felt := p.felt()
	if n := p.Requests.Completed; n < fewest {
		w.Rest(p.of...)
		w.say("%s of %s completed%s at %s: %s", words.Count(n, "request"), c.target, of, p.load, felt)
		w.doubt("fewer than %d requests show no rate and no percentile", fewest)
		return nil
	}
	carried, err := w.carries(c, p)
	w.say("%s carries %s%s at %s: %s", c.target, carried, of, p.load, felt)
	if p.limit != "" {
		good, open := p.good()
		verb := map[bool]string{true: "meets", false: "misses"}[p.kept]
		if open {
			verb = "may meet"
		}
		w.say("%s", strings.TrimSuffix(fmt.Sprintf("It %s %s: %s", verb, p.limit, cmp.Or(good, p.why)), ": "))
	}
	if !p.Trust.Behind() {
		w.doubt("one load was measured: what the target can take at most is not known")
	}
	return err
}

// limited says which load is within the limit. kept and broke are as from within.
func (w *writer) limited(c *curve, kept, broke *point, of string) error {
	for _, p := range []*point{kept, broke} {
		if p != nil {
			w.Rest(p.of...)
			w.uncertain(p)
		}
	}
	if kept == nil {
		w.say("%s carries no load measured%s within %s: %s, the lowest, is beyond that (%s)", c.target, of, broke.limit,
			broke.load, broke.why)
	} else if err := w.kept(c, kept, broke, of); err != nil {
		return err
	}
	peak := c.peak()
	if peak == kept || of != "" {
		return nil
	}
	carried, err := w.carries(c, peak)
	w.say("It carries at most %s, at %s", carried, peak.load)
	return err
}

// kept says what the highest load within the limit is.
func (w *writer) kept(c *curve, kept, broke *point, of string) error {
	carried, err := w.carries(c, kept)
	end := "no higher load was measured"
	if broke != nil {
		end = fmt.Sprintf("%s is beyond that (%s)", broke.load, broke.why)
	}
	w.say("%s carries %s%s within %s: %s; %s", c.target, kept.load, of, kept.limit, carried, end)
	if of == "" {
		w.say("%s", capital(kept.feels()))
	}
	return err
}

// uncertain doubts whether a point is within the SLO, if its requests leave that open.
func (w *writer) uncertain(p *point) {
	if good, open := p.good(); open {
		w.doubt("whether %s is within the SLO is not certain: %s", p.load, good)
	}
}
