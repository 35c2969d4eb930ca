package watch

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Unknown stands for a number that is not known.
const Unknown = "n/a"

// Clean makes what others said harmless for a terminal.
func Clean(text string) string { return words.Printable(text) }

// Span formats a time in whole seconds.
func Span(d time.Duration) string { return words.Span(math.Round(d.Seconds())) }

// Rate formats a number per second.
func Rate(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return Unknown
	}
	return words.Millis(v) // the same digits
}

// Milliseconds formats a value of a distribution, which may be nil.
func Milliseconds(d *spatev1.WindowDistribution, v float64) string {
	if d == nil {
		return Unknown
	}
	return Rate(v) // the same digits
}

// quantile formats milliseconds, n/a if there are none.
func quantile(ms float64, of *spatev1.Quantiles) string {
	if of == nil {
		return Unknown
	}
	return words.Millis(ms)
}

// Left says how long the rest takes: "ETA ~1m40s". Empty: it is not known.
func Left(left plans.Sum) string {
	text := plans.InTable.Say(left, Span(time.Duration(left.Known*float64(time.Second))))
	if text == "n/a" {
		return ""
	}
	return "ETA " + text
}

// Change says that an agent was lost or joined, and what follows.
func Change(c *spatev1.AgentChanged) (severity spatev1.Severity, text string) {
	who := "agent " + c.GetAgent().GetName()
	if region := c.GetAgent().GetRegion(); region != "" {
		who += " (" + region + ")"
	}
	severity, text = spatev1.Severity_SEVERITY_WARNING, who+" was lost"
	if c.GetJoined() {
		severity, text = spatev1.Severity_SEVERITY_INFO, who+" joined"
	}
	if c.GetReason() != "" {
		text += " (" + c.GetReason() + ")"
	}
	if c.GetConsequence() != "" {
		text += ": " + c.GetConsequence()
	}
	return severity, text
}

// NoticeText returns a notice in words, without its time.
func NoticeText(n Notice) string {
	if n.Change != nil {
		_, text := Change(n.Change)
		return Clean(text)
	}
	return Clean(n.Text)
}

// Names returns what a stage puts load on, and which: target, workload, load.
func Names(s *Stage) (names []string) {
	all := []string{s.Started.GetTarget(), s.Started.GetWorkload(), s.Started.GetLoad()}
	return lists.Each(lists.Where(all, func(name string) bool { return name != "" }), Clean)
}

// Progress says how far a stage is that has not ended.
func Progress(s *Stage) string {
	text := Span(s.Elapsed())
	if _, known := s.Part(); !known {
		return text + ", its end is not known"
	}
	if d := s.Started.GetExpected().AsDuration(); d > 0 {
		text += " of " + Span(d)
	}
	if n := s.Started.GetExpectedRequests(); n > 0 {
		text += fmt.Sprintf(" · %s of %s requests", words.Thousands(s.Progress.GetCompleted()), words.Thousands(n))
	}
	if left := Left(s.Left()); left != "" {
		text += " · " + left
	}
	return text
}

// RunText says how far a run is that has started.
func RunText(r *Run) string {
	noun := " stages"
	if r.Stages == 1 {
		noun = " stage"
	}
	text := Span(r.Latest.Sub(r.Started)) + " · " + r.Most() + noun
	if left := Left(r.Left()); left != "" {
		text += " · " + left
	}
	return text
}

// End says how a stage ended: well reports whether nothing is wrong with it.
func End(s *Stage) (text string, well bool) {
	switch {
	case s.Ended.GetFailure() != "":
		return Clean(s.Ended.GetFailure()), false
	case !s.Ended.GetComplete():
		return "incomplete", false
	}
	return "complete", true
}

// recent is over how many windows the load achieved is taken: one second is too little for low rates.
const recent = 10

// Load compares the load asked with the load achieved. over says of which time the latter is, if that is known.
func Load(s *Stage, windows []*spatev1.StageWindow) (text, over string) {
	text = "asked " + Clean(cmp.Or(s.Started.GetLoad(), Unknown)) + " · achieved "
	if took := s.Elapsed().Seconds(); !s.InProgress() && took > 0 {
		return text + Rate(float64(s.Progress.GetCompleted())/took) + " ended/s", "over the whole stage"
	}
	if !counted(s) {
		return text + Unknown, ""
	}
	text += words.Thousands(uint64(s.Progress.GetInFlight())) + " in flight"
	started, seconds := Starts(windows[max(0, len(windows)-recent):])
	if seconds == 0 {
		return text, ""
	}
	return text + ", " + Rate(started) + " started/s", fmt.Sprintf("over %d s", seconds)
}

// Completed returns the number of requests of a stage that completed.
func Completed(p *spatev1.StageProgress) uint64 {
	return p.GetCompleted() - min(p.GetFailed(), p.GetCompleted())
}

// counted reports whether the requests of a stage have been counted. They have not if its coordinator was restarted
// since the stage ended: then only the files of the run have its numbers.
func counted(s *Stage) bool { return s.Progress != nil || s.Ended == nil }

// Count writes a number of requests of a stage.
func Count(s *Stage, n uint64) string {
	if !counted(s) {
		return Unknown
	}
	return words.Thousands(n)
}

// Errors counts a stage's failures by class, the most frequent first.
func Errors(s *Stage) (text string, none bool) {
	failed, all := s.Progress.GetFailed(), s.Progress.GetCompleted()
	if !counted(s) {
		return Unknown, true
	}
	if s.From == 0 { // windows, which have the classes, may come before the progress of their second
		byClass := uint64(0)
		for _, n := range s.Errors {
			byClass += n
		}
		failed = max(failed, byClass)
	}
	if failed == 0 && len(s.Errors) == 0 {
		return "none", true
	}
	text = words.Thousands(failed)
	if all > 0 {
		text += fmt.Sprintf(" (%.2g %%)", 100*float64(failed)/float64(all))
	}
	classes := slices.SortedFunc(maps.Keys(s.Errors), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Errors[b], s.Errors[a]), cmp.Compare(a, b))
	})
	parts := lists.Each(classes, func(class string) string { return Clean(class) + " " + words.Thousands(s.Errors[class]) })
	text += ": " + strings.Join(parts, ", ")
	if s.From > 0 {
		text += fmt.Sprintf(" from second %d on", s.From)
	}
	return strings.TrimSuffix(text, ": "), false
}

// Output returns the output of a stage per second, with its unit: requests, if answers come in one piece. Before the
// first frame it is not known.
func Output(s *Stage) string {
	switch p := s.Progress; {
	case s.Started.GetWhole():
		return outputOf(s) + " req/s"
	case p != nil && noOutput(s):
		return Unknown
	case p != nil && p.OutputTokensPerSecond == nil:
		return outputOf(s) + " frames/s"
	}
	return outputOf(s) + " tok/s"
}

// SoFar shows the latencies of the whole stage so far. Empty: there are none.
func SoFar(s *Stage) string {
	type latency struct {
		name string
		q    *spatev1.Quantiles
	}
	p := s.Progress
	latencies := []latency{{"TTFT", p.GetTtft()}, {"TPOT", p.GetTpot()}}
	if s.Started.GetWhole() {
		latencies = []latency{{"E2E", p.GetE2E()}}
	}
	var parts []string
	for _, of := range latencies {
		if of.q != nil {
			parts = append(parts, fmt.Sprintf("%s %s / %s", of.name, words.Millis(of.q.GetP50Ms()),
				words.Millis(of.q.GetP99Ms())))
		}
	}
	return strings.Join(parts, " · ")
}

// metrics are the latencies of a window, by their names in results.json. The last one is known of answers in one piece,
// too.
var metrics = []Metric{
	{"ttft_ms", "TTFT ms"}, {"tpot_ms", "TPOT ms"}, {"itl_ms", "ITL ms"}, {"e2e_ms", "E2E ms"},
}

// Metric is a latency, by its name in results.json.
type Metric struct{ Name, Label string }

// Metrics returns the latencies that the windows of a stage have.
func Metrics(s *Stage) []Metric {
	if s.Started.GetWhole() {
		return metrics[len(metrics)-1:]
	}
	return metrics
}
