// Package headline turns the results of a run, or a comparison of runs, into the sentences that answer it: which target
// is better, what a target can take and what a user feels there, what a search found, and where that is doubtful. All
// files, pages and commands show these sentences, and no others.
//
// It is pure. Numbers come from package results and chance from package compare: a sentence never says more than they
// hold. A stage that is INVALID or incomplete counts in no answer.
package headline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/report/tables"
)

// Kinds of an answer.
const (
	Targets = "targets"
	Target  = "target"
	Series  = "series"
	Nothing = "nothing"
)

// most is how many items of a list a sentence has.
const most = 3

// writer writes the answer of a run.
type writer struct {
	*results.Headline
	run    *compare.Run
	r      *results.Result // in the plan's time
	curves []*curve
	doubts []string
	// changes are the other targets against the baseline.
	changes *compare.Comparison
}

// Of returns the answer of a run. The run's requests tell differences and throughputs from chance; without them only
// repeats do. changes is the comparison behind it, nil if there is none. The error is that of reading requests.
func Of(run *compare.Run) (h *results.Headline, changes *compare.Comparison, err error) {
	w := &writer{Headline: &results.Headline{Sentences: []string{}, Stages: []uint32{}}, run: run,
		r: results.InPlanTime(run.Result)}
	w.curves = w.curvesOf()
	w.say("%s", capital(w.wrong()))
	names, searched := tables.TargetNames(w.r), slices.ContainsFunc(w.r.Run.Series, found)
	switch w.Kind = Target; {
	case len(w.curves) == 0:
		w.Kind = Nothing
	case len(names) > 1:
		w.Kind = Targets
		err = w.targets(names, searched)
	case searched:
		w.Kind = Series
		err = w.series()
	default:
		err = w.target()
	}
	w.believe()
	w.Sentences = w.Sentences[:min(len(w.Sentences), most)]
	if len(w.doubts) > 0 {
		w.Doubt = new(strings.Join(w.doubts[:min(len(w.doubts), most)], "; ") + ".")
	}
	return w.Headline, w.changes, err
}

// say adds a sentence, unless it is empty.
func (w *writer) say(format string, args ...any) {
	text := words.Printable(fmt.Sprintf(format, args...))
	if text = strings.TrimSuffix(text, "."); text != "" {
		w.Sentences = append(w.Sentences, text+".")
	}
}

// capital returns a text that does not begin with a name with a capital, for the start of a sentence.
func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// doubt adds a reason to doubt the answer, unless it is empty.
func (w *writer) doubt(format string, args ...any) {
	if text := words.Printable(fmt.Sprintf(format, args...)); text != "" {
		w.doubts = words.AppendOnce(w.doubts, strings.TrimSuffix(text, "."))
	}
}

// wrong says what went wrong in the run. Empty: nothing.
func (w *writer) wrong() string {
	run, parts := &w.r.Run, []string(nil)
	switch {
	case run.Outcome == nil:
		parts = append(parts, "the run did not end")
	case *run.Outcome == "stopped":
		parts = append(parts, "the run was stopped")
	case *run.Outcome != "done":
		parts = append(parts, "the run failed")
	}
	if len(parts) > 0 && run.Reason != nil {
		parts[0] = strings.Replace(parts[0]+": "+*run.Reason, "stopped: stopped", "stopped", 1)
	}
	missing := run.Unexplained()
	switch n := len(missing); {
	case len(w.r.Stages) == 0:
		parts = append(parts, "no stage was measured")
	case !run.Complete && n > 0:
		parts = append(parts, "the result is incomplete: "+andMore(missing[0], n))
	}
	parts = append(parts, w.failures(), w.left(trust.Invalid))
	return words.Joined("; ", lists.Each(parts, words.Message)...)
}

// andMore adds to the first of n items how many others there are.
func andMore(first string, n int) string {
	if n > 1 {
		first += fmt.Sprintf(" (and %d more)", n-1)
	}
	return first
}

// failures says how many requests failed, if so many did that it matters in a stage. Empty: they did not.
func (w *writer) failures() string {
	failed, ended, classes, matter := uint64(0), uint64(0), map[string]uint64{}, false
	for s := range lists.Refs(w.r.Stages) {
		failed, ended = failed+s.Requests.Failed, ended+s.Requests.Failed+s.Requests.Completed
		for class, n := range s.Errors {
			classes[class] += n
		}
		matter = matter || s.Requests.Failed > 0 && s.Requests.Completed == 0 ||
			slices.ContainsFunc(s.Trust.Failed(), func(c trust.Check) bool { return c.Name == "errors" })
	}
	if failed == 0 {
		return ""
	}
	text := fmt.Sprintf("%s of %s requests failed (%s)", words.Thousands(failed), words.Thousands(ended),
		trust.ErrorCounts(classes))
	if matter {
		return text
	}
	w.doubt("%s", text)
	return ""
}

// left says how many stages have a verdict, and why: of one that the answer rests on, or else of the first. Empty: none
// has.
func (w *writer) left(v trust.Verdict) string {
	var of *results.StageResult
	n, rests, only := 0, false, len(w.r.Stages) == 1
	for s := range lists.Refs(w.r.Stages) {
		if s.Trust.Verdict != v {
			continue
		}
		behind := slices.Contains(w.Stages, s.Index)
		if n++; n == 1 || behind && !rests {
			rests, of = behind, s
		}
	}
	if n == 0 {
		return ""
	}
	why := reasonOf(of, v, only)
	switch {
	case !only:
		return fmt.Sprintf("%d of %d stages %s (%s)", n, len(w.r.Stages), v,
			words.Joined(": ", fmt.Sprintf("stage %d", of.Index+1), why))
	case why != "":
		return fmt.Sprintf("the only stage is %s (%s)", v, why)
	case v == trust.Suspect:
		return ""
	}
	return fmt.Sprintf("the only stage is %s", v)
}

// reasonOf returns the first check of a stage that has a verdict, in words. Of the only stage, failures tells how
// requests failed.
func reasonOf(s *results.StageResult, v trust.Verdict, only bool) string {
	for _, c := range s.Trust.Failed() {
		told := only && s.Requests.Failed > 0 && (c.Name == "errors" || c.Name == "measured")
		if c.Verdict == v && !told {
			return c.Words
		}
	}
	return ""
}

// believe adds why the stages behind the answer are doubtful, before the other reasons.
func (w *writer) believe() {
	others := w.doubts
	w.doubts = nil
	w.doubt("%s", w.left(trust.Suspect))
	w.doubts = append(w.doubts, others...)
}

// found reports whether a series is an answer: a sweep is not, its stages are.
func found(s results.SeriesResult) bool { return s.Kind != loadpoint.Sweep && s.Sentence != "" }

// series says what searches and frontiers found, in the words of their records.
func (w *writer) series() error {
	all := slices.DeleteFunc(slices.Clone(w.r.Run.Series), func(s results.SeriesResult) bool { return !found(s) })
	for i := range all[:min(len(all), most)] {
		s := &all[i]
		if !slices.ContainsFunc(w.Sentences, func(said string) bool { return strings.Contains(said, s.Sentence) }) {
			said := fmt.Sprintf("%s, %s: %s", s.Target, s.Workload, s.Words())
			if s.Kind == loadpoint.Choice { // which names its target
				said = s.Workload + ": " + s.Sentence
			}
			w.say("%s", said)
		}
		for _, p := range []*uint32{s.Limit().Stage, s.Knee, s.HighestGoodput} {
			if p != nil {
				w.Rest(*p)
			}
		}
	}
	if len(all) > most {
		w.doubt("%d more answers are in the tables", len(all)-most)
	}
	at := all[0].Limit().Stage
	if len(all) > 1 || at == nil {
		return nil
	}
	s := results.StageAt(w.r.Stages, *at)
	for _, c := range w.curves {
		if s != nil && c.target == s.Target && c.workload == s.Workload {
			p := w.pointOf(s)
			carried, err := w.carries(c, p)
			w.say("%s", strings.TrimSuffix(fmt.Sprintf("At %s it carries %s: %s", p.load, carried, p.felt()), ": "))
			return err
		}
	}
	return nil
}
