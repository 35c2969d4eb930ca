package series

import (
	"fmt"
	"math"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// notLimited is the reason if a search's highest load kept the objectives.
const notLimited = "the upper bound of the search: raise it to find the limit"

// Record returns what the search has found so far. The search has converged if it came to a definite end: within its
// precision, at the upper bound, or at the lower bound with nothing kept. Its probes are the stages that Take was
// given: a stage that was cut short does not count.
func (s *search) Record() *spatev1.SearchRecord {
	rec := &spatev1.SearchRecord{Search: s.asked, Probes: uint32(len(s.done) + len(s.invalid))}
	kept, broke := s.bracket()
	rec.Verdict, rec.Doubts = s.verdict(kept, broke)
	rec.Converged = s.ended == "" && len(s.done) > 0 && (kept == 0 || s.narrow(kept, broke))
	if kept > 0 {
		rec.Kept, rec.StageIndex = new(kept), s.at(kept)[0].stage
		s.addThroughput(rec, kept)
	}
	if broke > 0 {
		rec.Broke, rec.Reason = new(broke), s.reasonAt(broke)
	}
	switch {
	case s.ended != "":
		rec.Reason = joined(rec.GetReason(), "the search ended early: "+s.ended)
	case kept > 0 && broke == 0 && rec.Converged:
		rec.Reason = notLimited
	case kept == 0 && broke > 0:
		rec.Reason = joined(rec.GetReason(), "the search does not go below "+s.words(s.from))
	}
	return rec
}

// verdict returns the worst verdict on the measurements at the given loads, and its reasons.
func (s *search) verdict(values ...float64) (worst, doubts string) {
	for _, value := range values {
		for _, p := range s.at(value) {
			if rank(p.outcome.Verdict) > rank(worst) {
				worst, doubts = p.outcome.Verdict, p.outcome.Doubts
			}
		}
	}
	return worst, doubts
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

// reasonAt returns the first reason why a load broke.
func (s *search) reasonAt(value float64) string {
	for _, p := range s.at(value) {
		if p.reason != "" {
			return p.reason
		}
	}
	return ""
}

// addThroughput adds the mean throughput of the stages at a load and its margin, if at least two are known.
func (s *search) addThroughput(rec *spatev1.SearchRecord, value float64) {
	var values []float64
	for _, p := range s.at(value) {
		if p.outcome.Throughput != nil {
			values = append(values, *p.outcome.Throughput)
		}
	}
	if len(values) < 2 {
		return
	}
	mean, margin := meanMargin(values)
	rec.MeanThroughput, rec.ThroughputMargin = &mean, &margin
}

// Conclusion returns what was found, and whether the search converged.
func (s *search) Conclusion() (text string, good bool) {
	rec := s.Record()
	probes := fmt.Sprintf("%s; %d probes", verdictWords(rec), rec.GetProbes())
	if rec.GetProbes() == 1 {
		probes = verdictWords(rec) + "; 1 probe"
	}
	switch {
	case rec.Kept == nil && rec.Broke == nil:
		return "no result: " + rec.GetReason(), false
	case rec.Kept == nil:
		return fmt.Sprintf("no load is within the limits: %s is too high (%s)%s", s.words(rec.GetBroke()),
			rec.GetReason(), probes), false
	}
	found := s.words(rec.GetKept()) + " is within the limits"
	switch {
	case rec.Broke == nil && rec.GetConverged():
		return fmt.Sprintf("%s (%s)%s%s", found, rec.GetReason(), throughputWords(rec), probes), true
	case rec.Broke == nil:
		found += ", higher loads were not measured"
	default:
		found += fmt.Sprintf(", %s is too high (%s)", number(rec.GetBroke()), rec.GetReason())
	}
	return found + throughputWords(rec) + probes + s.openEnd(rec), rec.GetConverged()
}

// openEnd returns why a search did not reach its precision, unless its reason already says so.
func (s *search) openEnd(rec *spatev1.SearchRecord) string {
	switch {
	case rec.GetConverged():
		return ""
	case s.ended != "":
		if rec.Broke == nil {
			return " (" + rec.GetReason() + ")"
		}
		return ""
	}
	return fmt.Sprintf(" are too few for a precision of %s: raise probes or narrow the bounds",
		percent(s.precision))
}

// throughputWords says how certain the load found is: the throughput of its repeats, or that it was measured once.
func throughputWords(rec *spatev1.SearchRecord) string {
	if rec.MeanThroughput == nil {
		return "; measured once"
	}
	return fmt.Sprintf("; %s ± %s completed, to 95 %%", number(rounded(rec.GetMeanThroughput(), digits)),
		rateWords(rec.GetThroughputMargin()))
}

// verdictWords returns the verdict on the measurements at the loads found, with its reasons. Empty: there is none.
func verdictWords(rec *spatev1.SearchRecord) string {
	switch {
	case rec.GetVerdict() == "":
		return ""
	case rec.GetDoubts() == "":
		return "; " + rec.GetVerdict()
	}
	return fmt.Sprintf("; %s: %s", rec.GetVerdict(), rec.GetDoubts())
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
