package series

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// notLimited is the reason if a search's highest load kept the objectives.
const notLimited = "the upper bound of the search: raise it to find the limit"

// Record returns what the search has found so far. The search has converged if it came to a definite end: within its
// precision, at the upper bound, or at the lower bound with nothing kept, each confirmed. Its probes are the stages
// that Take was given: a stage that was cut short does not count.
func (s *search) Record() *spatev1.SearchRecord {
	rec, t := &spatev1.SearchRecord{Search: s.asked, Probes: uint32(len(s.done) + len(s.invalid))}, s.tally()
	s.addProbes(rec, t)
	if len(s.done) > 0 {
		_, more := s.step(t)
		rec.Converged = s.ended == "" && more == ""
	}
	s.addLoads(rec, t)
	rec.Verdict, rec.Doubts = s.verdict(t)
	switch {
	case s.ended != "":
		rec.Reason = joined(rec.GetReason(), "the search ended early: "+s.ended)
	case t.kept > 0 && t.broke == 0 && rec.GetConverged():
		rec.Reason = notLimited
	case t.kept == 0 && t.broke > 0:
		rec.Reason = joined(rec.GetReason(), "the search does not go below "+s.words(s.from))
	}
	rec.Sentence = s.sentence(rec, t)
	return rec
}

// addProbes adds which probes decided, and how many others were overruled.
func (s *search) addProbes(rec *spatev1.SearchRecord, t *tally) {
	for _, p := range s.done {
		switch keeps := p.reason == ""; {
		case keeps && p.value > t.kept, !keeps && p.value < t.broke, !keeps && t.broke == 0:
			rec.Overruled++
		case keeps && p.value == t.kept, !keeps && p.value == t.broke:
			probe := &spatev1.SearchProbe{StageIndex: p.stage, Load: p.value, Broke: p.reason}
			rec.DecidedBy = append(rec.DecidedBy, probe)
		}
	}
}

// addLoads adds the two loads between which the limit is, and what the best probes at them say.
func (s *search) addLoads(rec *spatev1.SearchRecord, t *tally) {
	broke := s.best(t.broke, false)
	if broke != nil {
		rec.Broke, rec.Reason, rec.StageIndex = new(t.broke), broke.reason, broke.stage
	}
	if best := s.best(t.kept, true); best != nil {
		rec.Kept, rec.StageIndex = new(t.kept), best.stage
		s.addThroughput(rec, t.kept)
		rec.Caution = s.caution(*best)
	} else if broke != nil {
		rec.Caution = s.caution(*broke)
	}
}

// saying returns the probes at a load that kept, or those that broke, the most trustworthy first.
func (s *search) saying(value float64, kept bool) []probe {
	said := slices.DeleteFunc(s.at(value), func(p probe) bool { return (p.reason == "") != kept })
	slices.SortStableFunc(said, func(a, b probe) int {
		return cmp.Compare(rank(a.outcome.Verdict), rank(b.outcome.Verdict))
	})
	return said
}

// best returns the first of saying. Nil: there is none.
func (s *search) best(value float64, kept bool) *probe {
	if said := s.saying(value, kept); len(said) > 0 {
		return &said[0]
	}
	return nil
}

// verdict returns the worst verdict on what the answer stands on, and its reasons with the load. At each of its two
// loads the most trustworthy probes count, as many as decide.
func (s *search) verdict(t *tally) (worst, doubts string) {
	for _, kept := range []bool{true, false} {
		value := t.broke
		if kept {
			value = t.kept
		}
		said := s.saying(value, kept)
		if len(said) == 0 {
			continue
		}
		last := said[min(lead, len(said))-1].outcome
		if rank(last.Verdict) > rank(worst) {
			worst, doubts = last.Verdict, last.Doubts
			if doubts != "" {
				doubts = fmt.Sprintf("at %s, %s", s.words(value), doubts)
			}
		}
	}
	return worst, doubts
}

// caution returns which percentiles of the objectives a probe has too few values for. Empty: it has enough.
func (s *search) caution(p probe) string {
	var few []string
	most, count := uint64(0), p.outcome.Completed+p.outcome.Cancelled
	for _, l := range s.asked.GetKeep().GetLatencies() {
		if need := loadpoint.ValuesFor(l.GetPercentile()); count < need {
			few, most = append(few, LatencyWords(l.GetMetric(), l.GetPercentile())), max(most, need)
		}
	}
	if len(few) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is known from %d requests only: give each stage %d or more",
		strings.Join(few, " and "), count, most)
}

// rank returns a number that is larger for a worse verdict.
func rank(verdict string) int {
	return slices.Index([]string{"", "VALID", "SUSPECT", "INVALID"}, verdict)
}

// joined joins two reasons into one line. a may be empty.
func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// addThroughput adds the mean throughput of the stages at a load and its margin, if the search repeats it.
func (s *search) addThroughput(rec *spatev1.SearchRecord, value float64) {
	var values []float64
	for _, p := range s.at(value) {
		if p.outcome.Throughput != nil {
			values = append(values, *p.outcome.Throughput)
		}
	}
	if s.repeats < 2 || len(values) < 2 {
		return
	}
	mean, margin := meanMargin(values)
	rec.MeanThroughput, rec.ThroughputMargin = &mean, &margin
}

// Conclusion returns what was found, and whether that is an answer.
func (s *search) Conclusion() (text string, good bool) {
	rec := s.Record()
	return rec.GetSentence(), rec.GetConverged() && rec.Kept != nil
}

// sentence says what was found, by which probes, and what limits it.
func (s *search) sentence(rec *spatev1.SearchRecord, t *tally) string {
	parts := []string{s.found(rec, t)}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if rec.MeanThroughput != nil {
		add("%s ± %s completed, to 95 %%", rateWords(rec.GetMeanThroughput()),
			rateWords(rec.GetThroughputMargin()))
	}
	if rec.GetCaution() != "" {
		add("%s", rec.GetCaution())
	}
	switch {
	case rec.GetVerdict() == "":
	case rec.GetDoubts() == "":
		add("%s", rec.GetVerdict())
	default:
		add("%s: %s", rec.GetVerdict(), rec.GetDoubts())
	}
	if rec.Kept != nil || rec.Broke != nil {
		parts = append(parts, s.probeWords(rec, t))
	}
	return strings.Join(parts, "; ")
}

// found says between which loads the limit is.
func (s *search) found(rec *spatev1.SearchRecord, t *tally) string {
	said := func(value float64, kept bool) string {
		return fmt.Sprintf("in %d of %d probes", len(s.saying(value, kept)), len(s.at(value)))
	}
	switch {
	case rec.Kept == nil && rec.Broke == nil:
		return "no result: " + rec.GetReason()
	case rec.Kept == nil:
		return fmt.Sprintf("no load is within the limits: %s is too high %s (%s)", s.words(t.broke),
			said(t.broke, false), rec.GetReason())
	}
	found := fmt.Sprintf("%s is within the limits %s", s.words(t.kept), said(t.kept, true))
	switch {
	case rec.Broke != nil:
		return fmt.Sprintf("%s, %s is too high %s (%s)", found, s.words(t.broke), said(t.broke, false), rec.GetReason())
	case rec.GetReason() == notLimited:
		return fmt.Sprintf("%s (%s)", found, rec.GetReason())
	case s.ended != "":
		return fmt.Sprintf("%s, higher loads were not measured (%s)", found, rec.GetReason())
	}
	return found + ", higher loads were not measured"
}

// probeWords says how many probes there were, and whether they were enough.
func (s *search) probeWords(rec *spatev1.SearchRecord, t *tally) string {
	text := words.Count(uint64(rec.GetProbes()), "probe")
	if n := rec.GetOverruled(); n > 0 {
		text += fmt.Sprintf(", %d of them overruled by the others", n)
	}
	switch {
	case rec.GetConverged() || s.ended != "":
		return text
	case t.kept > 0 && !s.narrow(t.kept, t.broke):
		return fmt.Sprintf("%s: too few for a precision of %s, raise probes or narrow the bounds", text,
			percent(s.precision))
	}
	return text + ": too few to confirm the answer, raise probes or make each of them longer"
}

// meanMargin returns the mean of at least two values and half the width of its 95 % confidence interval: t s / sqrt(n),
// with the sample's standard deviation s and Student's t for n - 1 degrees of freedom.
func meanMargin(values []float64) (mean, margin float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, student(len(values)-1) * math.Sqrt(squares/(n-1)/n)
}

// studentTable holds the 0.975 quantiles of Student's t for 1 to 10 degrees of freedom.
var studentTable = [...]float64{12.7062047362, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818356, 2.4469118511,
	2.3646242516, 2.3060041352, 2.2621571628, 2.2281388520}

// student returns the 0.975 quantile of Student's t: from the table, and beyond the table by the expansion of
// Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5, which is exact to five digits there.
func student(freedom int) float64 {
	if freedom <= len(studentTable) {
		return studentTable[freedom-1]
	}
	const z = 1.959963984540054
	v := float64(freedom)
	z3, z5, z7, z9 := z*z*z, z*z*z*z*z, z*z*z*z*z*z*z, z*z*z*z*z*z*z*z*z
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v) +
		(79*z9+776*z7+1482*z5-1920*z3-945*z)/(92160*v*v*v*v)
}
