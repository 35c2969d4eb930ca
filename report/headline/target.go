package headline

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/internal/words"
)

// target says what the only target can take, and what a user feels there.
func (w *writer) target() error {
	if len(w.curves) > 1 {
		return w.workloads()
	}
	c := w.curves[0]
	if len(c.points) == 1 {
		return w.oneLoad(c)
	}
	if kept, broke, limited := c.within(); limited {
		return w.limited(c, kept, broke)
	}
	peak, enough := c.peak(), c.enough()
	carried, err := w.carries(c, peak)
	text := fmt.Sprintf("%s carries at most %s, at %s", c.target, carried, peak.load)
	switch top := c.points[len(c.points)-1]; {
	case enough == nil:
		w.say("%s", text)
		w.say("%s", capital(peak.feels("")))
		return err
	case enough == top:
		before := c.points[len(c.points)-2]
		text = fmt.Sprintf("%s carries %s at %s, the highest load measured; it rises from %s at %s, so its peak may be higher",
			c.target, carried, top.load, number(c.throughput(before)), before.load)
	case enough != peak:
		text += fmt.Sprintf("; %s carries %s already", enough.load, number(c.throughput(enough)))
	}
	w.say("%s", text)
	w.say("%s", capital(enough.feels("")))
	w.Rest(enough.of...)
	return err
}

// fewest is the number of requests from which on they show a rate.
const fewest = 20

// oneLoad says what was measured at the only load, which is not what the target can take.
func (w *writer) oneLoad(c *curve) error {
	p := c.points[0]
	_, felt, _ := strings.Cut(p.feels(""), p.load+" ")
	if n := p.Requests.Completed; n < fewest {
		w.Rest(p.of...)
		w.say("%s of %s completed at %s: %s", words.Count(n, "request"), c.target, p.load, felt)
		w.doubt("fewer than %d requests show no rate and no percentile", fewest)
		return nil
	}
	carried, err := w.carries(c, p)
	w.say("%s carries %s at %s: %s", c.target, carried, p.load, felt)
	if p.limit != "" {
		verb, why := "meets", p.why
		if !p.kept {
			verb = "misses"
		}
		if p.Goodput != nil {
			why = p.good()
		}
		if p.open() != "" {
			verb = "may meet"
		}
		w.say("%s", strings.TrimSuffix(fmt.Sprintf("It %s %s: %s", verb, p.limit, why), ": "))
	}
	w.doubt("one load was measured: what the target can take at most is not known")
	return err
}

// limited says which load is within the limit. kept and broke are as from within.
func (w *writer) limited(c *curve, kept, broke *point) error {
	if kept == nil {
		w.say("%s carries no load measured within %s: %s, the lowest, is beyond that (%s)", c.target, broke.limit, broke.load, broke.why)
	} else {
		carried, err := w.carries(c, kept)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s carries %s within %s: %s", c.target, kept.load, kept.limit, carried)
		if broke == nil {
			text += "; no higher load was measured"
		} else {
			text += fmt.Sprintf("; %s is beyond that (%s)", broke.load, broke.why)
		}
		w.say("%s", text)
		w.say("%s", capital(kept.feels("")))
	}
	for _, p := range []*point{kept, broke} {
		if p != nil {
			w.Rest(p.of...)
			w.uncertain(p)
		}
	}
	peak := c.peak()
	if peak == kept {
		return nil
	}
	carried, err := w.carries(c, peak)
	w.say("It carries at most %s, at %s", carried, peak.load)
	return err
}

// uncertain doubts whether a point is within the SLO, if its requests leave that open.
func (w *writer) uncertain(p *point) {
	if open := p.open(); open != "" {
		w.doubt("whether %s is within the SLO is not certain: %s", p.load, open)
	}
}

// workloads says what targets can take of each workload.
func (w *writer) workloads() error {
	var items, felt []string
	name, limit := "", ""
	for _, c := range w.curves[:min(len(w.curves), most)] {
		p := c.peak()
		carried, err := w.carries(c, p)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("at most %s of %s, at %s", carried, c.workload, p.load)
		if len(c.points) == 1 {
			text = fmt.Sprintf("%s of %s at %s", carried, c.workload, p.load)
		}
		if c.target != name {
			name, text = c.target, c.target+" carries "+text
		}
		at := c.enough()
		if kept, _, limited := c.within(); limited {
			within := p.limit
			if limit == within {
				within, _, _ = strings.Cut(within, " (")
			}
			if limit, at = p.limit, kept; kept == nil {
				text += ", no load within " + within
			} else {
				text += fmt.Sprintf(", %s within %s", kept.load, within)
				w.uncertain(kept)
			}
		}
		if items = append(items, text); at != nil {
			felt = append(felt, at.feels(" of "+c.workload))
			w.Rest(at.of...)
		}
	}
	w.say("%s%s", strings.Join(items, "; "), more(len(w.curves)-most))
	w.say("%s", capital(strings.Join(felt, "; ")))
	return nil
}

// more says that n more workloads are in the tables. Empty: n is not above 0.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more workloads in the tables", n)
}
