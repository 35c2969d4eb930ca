package calibration

import (
	"strings"
	"testing"
	"time"
)

var rules = DefaultRules

// row returns a row that keeps all rules, except for the effect of change.
func row(l Load, change func(*Row)) Row {
	r := Row{Load: l, Asked: l.asked(), Window: 4 * time.Second, CPU: 0.5}
	r.Frame = Spread{Count: uint64(4 * r.Asked), P50: 3_000, P99: 12_000}
	r.Lateness = Spread{Count: 1000, P50: 30_000, P99: 120_000}
	r.Completed = uint64(4 * l.Starts)
	if change != nil {
		change(&r)
	}
	return r
}

func TestJudge(t *testing.T) {
	streams, starts := Load{Streams: 1000}, Load{Starts: 1000}
	const heldUp = " (the agent had cores to spare: the simulator or other programs held it up)"
	for name, c := range map[string]struct {
		load    Load
		change  func(*Row)
		failure string
		broken  string
	}{
		"all is well":        {streams, nil, "", ""},
		"starts":             {starts, nil, "", ""},
		"at the budget":      {streams, func(r *Row) { r.Frame.P99 = 100_000 }, "", ""},
		"beyond it":          {streams, func(r *Row) { r.Frame.P99 = 101_000 }, "", "error p99 101µs"},
		"coalesced":          {streams, func(r *Row) { r.Coalesced = 201 }, "", "0.10 % of frames coalesced"},
		"hardly coalesced":   {streams, func(r *Row) { r.Coalesced = 200 }, "", ""},
		"one tick cut off":   {streams, func(r *Row) { r.Frame.Count = 200_000 - 1999 - 1000 }, "", ""},
		"held up":            {streams, func(r *Row) { r.Frame.Count = 196_000 }, "", "98.0 % of the requested load" + heldUp},
		"agent full":         {streams, func(r *Row) { r.Frame.Count, r.CPU = 160_000, 0.91 }, "", "80.0 % of the requested load"},
		"CPU not known":      {streams, func(r *Row) { r.Frame.Count, r.CPU = 160_000, 0 }, "", "80.0 % of the requested load"},
		"full, but reached":  {streams, func(r *Row) { r.CPU = 1 }, "", ""},
		"late":               {starts, func(r *Row) { r.Lateness.P99 = 1_001_000 }, "", "lateness p99 1.001ms"},
		"late slots":         {streams, func(r *Row) { r.Lateness.P99 = 1_001_000 }, "", ""},
		"failures":           {starts, func(r *Row) { r.Failed, r.Failure = 40, "reset" }, "", "0.99 % of requests failed: reset"},
		"few failures":       {starts, func(r *Row) { r.Failed = 4 }, "", ""},
		"nothing came":       {starts, func(r *Row) { r.Reading, r.CPU = Reading{}, 1 }, "", "0.0 % of the requested load"},
		"the run was broken": {streams, func(r *Row) { *r = Row{Load: streams} }, "no files", "no files"},
	} {
		r := row(c.load, c.change)
		rules.judge(&r, 1, c.failure)
		if got := strings.Join(r.BrokenRules, "; "); got != c.broken || r.Safe() != (c.broken == "") ||
			r.HeldUp != strings.Contains(c.broken, heldUp) {
			t.Errorf("%s: %q, want %q", name, got, c.broken)
		}
	}
}

func TestLimitOf(t *testing.T) {
	safe := func(streams int) Row { return row(Load{Streams: streams}, nil) }
	broken := func(streams int) Row {
		return row(Load{Streams: streams}, func(r *Row) { r.BrokenRules = []string{"it broke", "twice"} })
	}
	held := func(streams int) Row {
		r := broken(streams)
		r.HeldUp = true
		return r
	}
	for name, c := range map[string]struct {
		rows    []Row
		streams int
		above   string
		least   bool
	}{
		"none":                  {nil, 0, "", true},
		"all":                   {[]Row{safe(1), safe(2)}, 2, "", true},
		"to the second":         {[]Row{safe(1), safe(2), broken(3)}, 2, "it broke, twice", false},
		"not above what is not": {[]Row{safe(1), broken(2), safe(3)}, 1, "it broke, twice", false},
		"not even the first":    {[]Row{broken(1), safe(2)}, 0, "it broke, twice", false},
		"something else broke":  {[]Row{safe(1), held(2)}, 1, "it broke, twice", true},
		"of the first":          {[]Row{held(1)}, 0, "it broke, twice", false},
	} {
		if l := LimitOf(c.rows); l.Best.Streams != c.streams || l.Above != c.above || l.AtLeast != c.least {
			t.Errorf("%s: %+v, want %d streams by %q", name, l, c.streams, c.above)
		}
	}
}
