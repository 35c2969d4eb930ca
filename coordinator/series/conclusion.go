package series

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// notLimited is the end of a search whose highest load kept the objectives.
const notLimited = "the upper bound of the search: raise it to find the limit"

// Record returns what the search has found so far. The search has converged if it came to a definite end: within its
// precision, at the upper bound, or at the lower bound with nothing kept, each confirmed. Its stages are those that
// Take was given: a stage that was cut short does not count.
func (s *search) Record() *spatev1.SeriesRecord {
	t := s.tally()
	rec := &spatev1.SeriesRecord{Load: s.template, Stages: uint32(len(s.done) + len(s.invalid)),
		Limits: []*spatev1.LoadLimit{s.limit(t)}}
	s.addProbes(rec, t)
	if len(s.done) > 0 {
		_, more := s.step(t)
		rec.Converged = s.ended == "" && more == ""
	}
	rec.Complete = rec.GetConverged() && t.kept > 0
	s.addThroughput(rec, t.kept)
	if best := cmp.Or(s.best(t.kept, true), s.best(t.broke, false)); best != nil {
		rec.Caution = s.caution(*best)
	}
	rec.Verdict, rec.Doubts = s.verdict(t)
	switch {
	case t.kept == 0 && t.broke > 0:
		rec.End = "the search does not go below " + s.words(s.from)
	case t.broke == 0 && rec.GetConverged():
		rec.End = notLimited
	}
	switch {
	case s.ended != "":
		rec.Reason = "the search ended early: " + s.ended
	case !rec.GetConverged():
		rec.Reason = s.tooFew(t)
	}
	rec.Sentence = sentence(rec, s.found(rec), s.probeWords(rec))
	return rec
}

// addProbes adds which probes decided, and how many others were overruled.
func (s *search) addProbes(rec *spatev1.SeriesRecord, t *tally) {
	for _, p := range s.done {
		switch keeps := p.reason == ""; {
		case keeps && p.value > t.kept, !keeps && p.value < t.broke, !keeps && t.broke == 0:
			rec.Overruled++
		case keeps && p.value == t.kept, !keeps && p.value == t.broke:
			rec.Points = append(rec.Points, &spatev1.SeriesPoint{StageIndex: p.stage, Load: p.value, Broke: p.reason,
				Throughput: p.outcome.Throughput})
		}
	}
}

// limit returns the two loads between which the limit is, with what the best probes at them say.
func (s *search) limit(t *tally) *spatev1.LoadLimit {
	l := &spatev1.LoadLimit{}
	if best := s.best(t.broke, false); best != nil {
		l.Broke, l.Reason, l.StageIndex = new(t.broke), best.reason, best.stage
	}
	if best := s.best(t.kept, true); best != nil {
		l.Kept, l.StageIndex = new(t.kept), best.stage
	}
	return l
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
	for _, value := range []float64{t.kept, t.broke} {
		said := s.saying(value, value == t.kept)
		if len(said) == 0 {
			continue
		}
		if last := said[min(lead, len(said))-1].outcome; rank(last.Verdict) > rank(worst) {
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
			few, most = append(few, loadpoint.LatencyWords(l.GetMetric(), l.GetPercentile())), max(most, need)
		}
	}
	if len(few) == 0 {
		return ""
	}
	verb := "is"
	if len(few) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("%s %s known from %d requests only: give each stage %d or more",
		strings.Join(few, " and "), verb, count, most)
}

// rank returns a number that is larger for a worse verdict.
func rank(verdict string) int {
	return slices.Index([]string{"", "VALID", "SUSPECT", "INVALID"}, verdict)
}

// addThroughput adds the mean throughput of the stages at a load and its margin, if the search repeats it.
func (s *search) addThroughput(rec *spatev1.SeriesRecord, value float64) {
	values := lists.Known(s.at(value), func(p probe) *float64 { return p.outcome.Throughput })
	if s.repeats < 2 || len(values) < 2 {
		return
	}
	mean, spread := chance.Mean(values)
	rec.MeanThroughput, rec.ThroughputMargin = &mean, new(spread.Margin(0.95))
}

// found says between which loads the limit is, and how far that can be relied on.
func (s *search) found(rec *spatev1.SeriesRecord) (parts []string) {
	limit := rec.GetLimits()[0]
	if limit.Kept == nil && limit.Broke == nil {
		return nil
	}
	text := s.limitWords(limit, func(value float64, kept bool) string {
		return fmt.Sprintf(" in %d of %d probes", len(s.saying(value, kept)), len(s.at(value)))
	})
	if limit.Broke == nil && rec.GetEnd() == "" {
		text += ", higher loads were not measured"
	}
	parts = append(parts, text)
	if rec.MeanThroughput != nil {
		parts = append(parts, fmt.Sprintf("%s ± %s completed, to 95 %%", rateWords(rec.GetMeanThroughput()),
			rateWords(rec.GetThroughputMargin())))
	}
	verdict := rec.GetVerdict()
	if rec.GetDoubts() != "" {
		verdict += ": " + rec.GetDoubts()
	}
	return append(parts, rec.GetCaution(), verdict)
}

// tooFew says for what the search had too few probes.
func (s *search) tooFew(t *tally) string {
	if t.kept > 0 && !s.narrow(t.kept, t.broke) {
		return fmt.Sprintf("its probes are too few for a precision of %s: raise probes or narrow the bounds",
			percent(s.precision))
	}
	return "its probes are too few to confirm the answer: raise probes or make each of them longer"
}

// probeWords says how many probes there were.
func (s *search) probeWords(rec *spatev1.SeriesRecord) string {
	text := words.Count(uint64(rec.GetStages()), "probe")
	if n := rec.GetOverruled(); n > 0 {
		text += fmt.Sprintf(", %d of them overruled by the others", n)
	}
	return text
}
