package series

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// gap returns how much is not known between a point of the curve and the next one, as a logarithm: the largest of what
// is not known of the throughput, the latency, the highest goodput and the highest loads that keep the objectives.
//
// On logarithmic scales the throughput rises with the load and flattens, and the latency is flat and rises: the one is
// concave, the other convex. Such a curve lies between the straight line through two neighbouring points and the lines
// through the points on either side of them, extended. The largest distance in that triangle is the bound. It is small
// where the curve is straight, however far apart the points are: at low load and in saturation. This is the sandwich
// algorithm of G. Rote, "The convergence rate of the sandwich algorithm for approximating convex functions", Computing
// 48, 1992.
func (f *frontier) gap(i int) float64 {
	a, b := f.curve[i], f.curve[i+1]
	width := math.Log(b.load / a.load)
	unknown := max(f.throughputGap(i, width), f.latencyGap(i, width), f.goodputGap(a, b, width))
	for j := range min(len(a.judged), len(b.judged)) {
		if a.judged[j].broke == "" && b.judged[j].broke != "" {
			return max(unknown, width)
		}
	}
	return unknown
}

// throughputGap: the throughput grows at most like the load, and above the highest point it does not grow.
func (f *frontier) throughputGap(i int, width float64) float64 {
	at := func(p point) float64 { return p.throughput }
	before, own, after := f.slopes(i, at)
	if i == 0 {
		before = 1
	}
	if i+2 == len(f.curve) {
		after = min(0, own)
	}
	return apex(width, before-own, own-after)
}

// latencyGap: below the lowest point the latency does not fall. Above the highest one it grows at most like the load of
// a closed loop, and without bound for a rate.
func (f *frontier) latencyGap(i int, width float64) float64 {
	at := func(p point) float64 { return p.latency }
	before, own, after := f.slopes(i, at)
	if i == 0 {
		before = min(0, own)
	}
	if i+2 == len(f.curve) {
		after = math.Inf(1)
		if f.integer {
			after = max(1, own)
		}
	}
	return apex(width, own-before, after-own)
}

// slopes returns the slopes of a curve before, in and after an interval. Those outside of the curve are 0.
func (f *frontier) slopes(i int, at func(point) float64) (before, own, after float64) {
	slope := func(i int) float64 {
		if i < 0 || i+1 >= len(f.curve) {
			return 0
		}
		a, b := f.curve[i], f.curve[i+1]
		return math.Log(at(b)/at(a)) / math.Log(b.load/a.load)
	}
	return slope(i - 1), slope(i), slope(i + 1)
}

// apex returns the height of a triangle with the given base above it, whose other two sides leave it with these slopes
// at its ends. It returns 0 if there is no such triangle: then the measured values are not convex, by chance.
func apex(base, left, right float64) float64 {
	if left <= 0 || right <= 0 {
		return 0
	}
	return base / (1/left + 1/right)
}

// goodputGap returns how far the highest goodput may be above the highest measured one: between two points the
// throughput is at most that of the ends, and the share of good requests at most that at the lower load.
func (f *frontier) goodputGap(a, b point, width float64) float64 {
	best := f.best()
	if best == nil || a.goodput == 0 {
		return 0
	}
	most := max(a.throughput, b.throughput) * a.goodput / a.throughput
	return min(width, max(0, math.Log(most/best.goodput)))
}

// most returns the point of the curve with the highest value above 0, at the lowest load if there are several. It
// returns nil if there is none.
func (f *frontier) most(of func(point) float64) (most *point) {
	for i, p := range f.curve {
		if v := of(p); v > 0 && (most == nil || v > of(*most)) {
			most = &f.curve[i]
		}
	}
	return most
}

// best returns the point of the curve with the highest goodput. It returns nil if no request met the SLO.
func (f *frontier) best() *point { return f.most(func(p point) float64 { return p.goodput }) }

// knee returns the point of the curve with the highest power, its throughput divided by its latency: L. Kleinrock,
// "Power and deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979. It returns
// nil for an empty curve.
func (f *frontier) knee() *point { return f.most(point.power) }

// dominated reports whether another point of the curve is better in one respect, and not worse in the other.
func (f *frontier) dominated(p point) bool {
	return slices.ContainsFunc(f.curve, func(q point) bool {
		return q.throughput >= p.throughput && q.latency <= p.latency &&
			(q.throughput > p.throughput || q.latency < p.latency)
	})
}

// Record returns what the frontier has found so far.
func (f *frontier) Record() *spatev1.SeriesRecord {
	rec := &spatev1.SeriesRecord{Load: f.template, Stages: uint32(len(f.runs)), End: f.peak, Limits: f.limits(),
		Reason: cmp.Or(f.ended, f.unknown()), Complete: f.ended == "" && len(f.curve) > 0}
	if c := f.ceiling(); c != nil && f.peak == "" {
		rec.End = f.words(c.load) + " is not on the curve: " + c.out
	}
	rec.Converged = rec.GetReason() == ""
	for _, at := range f.loads() {
		counts := counting(at)
		for _, p := range at {
			if p.stage != counts.stage {
				p.out = cmp.Or(p.out, "another stage of this load counts: it is the middle one, or the better of two")
			}
			if p.out == "" && rank(p.verdict) > rank(rec.GetVerdict()) {
				rec.Verdict = p.verdict
			}
			rec.Points = append(rec.Points, f.record(p))
		}
	}
	if p := f.knee(); p != nil {
		rec.Knee = &p.stage
	}
	if p := f.best(); p != nil {
		rec.Best = &p.stage
	}
	rec.Sentence = sentence(rec, f.found(rec), words.Count(uint64(len(f.runs)), "stage"))
	return rec
}

// unknown returns what could not be found out with the stages that the frontier may take. Empty: nothing.
func (f *frontier) unknown() string {
	last := f.doubted(f.bounds)
	switch unknown, _ := f.widest(); {
	case len(f.curve) == 0:
		return "no stage is on the curve"
	case len(last) > 0:
		return f.words(last[0]) + " was measured once only: raise points"
	case f.rising():
		return "its points are too few to reach a saturated server: raise points or from"
	case unknown > f.tolerance:
		return fmt.Sprintf("its points are too few for a tolerance of %s: raise points, tolerance or from",
			percent(f.asked.GetTolerance()))
	}
	return ""
}

// record returns a point for the ledger.
func (f *frontier) record(p point) *spatev1.SeriesPoint {
	return &spatev1.SeriesPoint{
		StageIndex: p.stage, Load: p.load, LeftOut: p.out, Pareto: p.out == "" && !f.dominated(p),
		Throughput: known(p.throughput), Latency: known(p.latency),
	}
}

// known returns a value, nil for 0.
func known(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return new(v)
}

// limits returns the highest loads that keep the objectives. It returns nil if there are none.
func (f *frontier) limits() []*spatev1.LoadLimit {
	if f.asked.GetKeep() == nil || len(f.curve) == 0 {
		return nil
	}
	points := slices.Clone(f.curve)
	if c := f.ceiling(); c != nil && !c.unmeasured {
		points = append(points, *c)
	}
	var all []*spatev1.LoadLimit
	for j := range points[0].judged {
		l := &spatev1.LoadLimit{Part: points[0].judged[j].part}
		for _, p := range points {
			if j < len(p.judged) && p.judged[j].broke != "" {
				l.Broke, l.Reason = new(p.load), p.judged[j].broke
				if l.Kept == nil {
					l.StageIndex = p.stage
				}
				break
			}
			l.Kept, l.StageIndex = new(p.load), p.stage
		}
		all = append(all, l)
	}
	return all
}

// found says where the knee, the highest goodput and the limits are.
func (f *frontier) found(rec *spatev1.SeriesRecord) (parts []string) {
	if len(f.curve) == 0 {
		return nil
	}
	knee := f.knee()
	parts = append(parts, fmt.Sprintf("knee at %s (%s, %s)%s", f.words(knee.load), rateWords(knee.throughput),
		loadpoint.Milliseconds(time.Duration(knee.latency*float64(time.Second))), knee.doubted()))
	if p := f.best(); p != nil {
		parts = append(parts, fmt.Sprintf("highest goodput %s at %s%s", rateWords(p.goodput), f.words(p.load),
			p.doubted()))
	}
	for _, l := range rec.GetLimits() {
		parts = append(parts, f.limitWords(l, func(value float64, _ bool) string {
			if p := lists.First(f.curve, func(p *point) bool { return p.load == value }); p != nil {
				return p.doubted()
			}
			return ""
		}))
	}
	return parts
}

// doubted returns the verdict on a point that is not VALID.
func (p *point) doubted() string {
	if rank(p.verdict) <= rank("VALID") {
		return ""
	}
	return ", " + p.verdict
}
