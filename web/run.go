package web

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/page/chart"
	"github.com/spate-load/spate/watch"
)

// Run is the state that the page of a run shows.
type Run struct {
	// Summary is what the list of runs says of it.
	Summary *spatev1.RunSummary
	// State is what its events say.
	State *watch.Run
	// Stage is the index of the stage to show. Nil: the one in progress.
	Stage *uint32
	// Files are the files of a run that has ended. Result is what results.json has, nil until the files have been made.
	Files  []fileInfo
	Result *results.Result
	// Before has the throughput of the stages of the plan's last run.
	Before []*spatev1.HistoryLine
}

// Over reports whether the run has ended.
func (r Run) Over() bool {
	return r.Summary.GetState() == spatev1.RunState_RUN_STATE_ENDED ||
		r.Summary.GetState() == spatev1.RunState_RUN_STATE_BROKEN
}

// maxStages is how many stages a page lists: the last ones.
const maxStages = 200

// Parts returns the page's parts.
func (r Run) Parts() ([]Part, error) {
	s := r.stage()
	var windows []*spatev1.StageWindow
	var last *spatev1.StageWindow
	if s != nil {
		if windows = r.State.Windows(s.Index); len(windows) > 0 {
			last = windows[len(windows)-1]
		}
	}
	view := map[string]any{
		"Summary": r.Summary, "State": r.doing(s), "Over": r.Over(), "Files": r.Files, "News": r.news(s),
		"Most": r.State.Most(), "Place": "",
		"Charts": charts(s, windows), "Verdict": r.verdict(s), "Regions": watch.Regions(r.State, last),
	}
	if place := r.Summary.GetPlace(); place > 1 {
		view["Place"] = words.Count(uint64(place-1), "run") + " before it"
	}
	if s != nil {
		view["Stage"] = r.stageView(s, windows)
		view["Progress"] = watch.RunText(r.State)
		if !r.Over() {
			view["Curve"] = r.curve(s)
		}
		view["Part"], view["PartKnown"] = r.State.Part()
	}
	stages := watch.Stages(r.State)
	view["MoreStages"] = max(0, len(stages.Rows)-maxStages)
	stages.Rows = stages.Rows[max(0, len(stages.Rows)-maxStages):]
	view["Stages"] = stages
	agents := watch.Agents(r.State, last)
	slices.SortStableFunc(agents.Rows, func(a, b table.Row) int { return cmp.Compare(b.Colour, a.Colour) })
	if r.Over() { // the last second is not its result
		view["Regions"], agents = &table.Table{}, &table.Table{}
		if r.Result != nil {
			view["Regions"], agents = report.Regions(r.Result), report.Agents(r.Result)
		}
	}
	view["MoreAgents"] = max(0, len(agents.Rows)-maxRows)
	agents.Rows = agents.Rows[:min(len(agents.Rows), maxRows)]
	view["Agents"] = agents
	view["Notices"] = notices(r.State)
	return parts(view, "state", "news", "stage", "charts", "verdict", "stages", "regions", "team", "notices")
}

// Write writes the page.
func (r Run) Write(w io.Writer, f Frame) error {
	return writePage(w, "run.html.tmpl", map[string]any{
		"Title": watch.State(r.Summary) + ": " + watch.Clean(r.Summary.GetRunId()), "Events": f.Events, "Frame": f,
		"ID": r.Summary.GetRunId(), "Ended": r.Over(),
	})
}

// stage returns the stage to show, nil if none has started.
func (r Run) stage() *watch.Stage {
	if r.Stage != nil {
		if s := r.State.Stage(*r.Stage); s != nil && s.Started != nil {
			return s
		}
	}
	return r.State.Current()
}

// doing says in words what the run does.
func (r Run) doing(s *watch.Stage) string {
	switch {
	case r.Over() || r.Summary.GetState() == spatev1.RunState_RUN_STATE_WAITING:
		return watch.State(r.Summary)
	case s == nil:
		return "being prepared"
	case s.InProgress():
		return fmt.Sprintf("stage %d of %s is running", s.Index+1, r.State.Most())
	}
	return fmt.Sprintf("stage %d of %s has ended, the next one is being prepared", s.Index+1, r.State.Most())
}

// news says how the run goes, for people who listen: it changes only with the stage, the verdict and lost agents.
func (r Run) news(s *watch.Stage) string {
	switch {
	case r.Over():
		return "The run has ended: " + watch.State(r.Summary) + "."
	case s == nil:
		return r.waiting()
	}
	text := fmt.Sprintf("Stage %d of %s", s.Index+1, r.State.Most())
	if s.Verdict != "" {
		text += ", " + watch.Clean(s.Verdict) + " so far"
	}
	return strings.Join(append([]string{text}, r.lost()...), ". ") + "."
}

// waiting says why there is no stage.
func (r Run) waiting() string {
	switch {
	case r.Over():
		return "No stage started."
	case r.Summary.GetState() == spatev1.RunState_RUN_STATE_WAITING:
		return "The run waits: " + watch.Clean(r.Summary.GetWaitsBecause()) + "."
	}
	return "The run is being prepared: no stage has started yet."
}

// stageView is what the page shows of a stage.
type stageView struct {
	Number                                                  uint32
	Names, Progress, Load, Completed, Errors, Output, SoFar string
	InProgress, PartKnown, NoErrors, Chosen                 bool
	Part                                                    float64
	Latencies                                               *table.Table
}

func (r Run) stageView(s *watch.Stage, windows []*spatev1.StageWindow) stageView {
	v := stageView{
		Number: s.Index + 1, Names: strings.Join(watch.Names(s), " · "), InProgress: s.InProgress(),
		Completed: watch.Count(s, watch.Completed(s.Progress)), SoFar: watch.SoFar(s),
		Output: watch.Output(s), Chosen: r.Stage != nil && s != r.State.Current(),
	}
	v.Progress = watch.Progress(s)
	if s.Ended != nil {
		text, _ := watch.End(s)
		v.Progress = text
		if s.Progress != nil {
			v.Progress = watch.Span(s.Elapsed()) + " · " + text
		}
	}
	v.Part, v.PartKnown = s.Part()
	load, over := watch.Load(s, windows)
	if v.Load = load; over != "" {
		v.Load += " (" + over + ")"
	}
	v.Errors, v.NoErrors = watch.Errors(s)
	if s.InProgress() {
		v.Latencies = latencies(s, windows)
	}
	return v
}

// latencies returns the distributions of the last window, nil if there is none.
func latencies(s *watch.Stage, windows []*spatev1.StageWindow) *table.Table {
	if len(windows) == 0 {
		return nil
	}
	part := windows[len(windows)-1].GetWhole()
	t := table.New(table.Words("last second"), table.Numbers("values", "mean", "p50", "p90", "p99", "max"))
	for _, m := range watch.Metrics(s) {
		d := watch.Distribution(part, m.Name)
		row := t.Add(m.Label, words.Thousands(d.GetCount()))
		for _, v := range []float64{d.GetMean(), d.GetP50(), d.GetP90(), d.GetP99(), d.GetMax()} {
			row.Add(watch.Milliseconds(d, v))
		}
	}
	return t
}

// verdictView is a verdict with what is wrong and what the run waits for.
type verdictView struct {
	Verdict, Class string
	Lines          []string
	Doubts         []*spatev1.Doubt
}

// classes are the colours of verdicts.
var classes = map[string]string{"VALID": "valid", "SUSPECT": "suspect", "INVALID": "invalid"}

// verdict returns that of the run after its end, else that of the stage to show.
func (r Run) verdict(s *watch.Stage) verdictView {
	switch {
	case r.Over() && (r.Stage == nil || s == nil):
		v := verdictView{Verdict: cmp.Or(r.Summary.GetVerdict(), "NOT JUDGED"), Class: classes[r.Summary.GetVerdict()]}
		if !r.Summary.GetComplete() {
			v.Class = "invalid"
			if v.Verdict != "INVALID" {
				v.Verdict = "PARTIAL"
			}
		}
		if v.Lines = []string{r.Summary.GetReason()}; r.Result != nil && r.Result.Headline != nil {
			facts := headline.Facts(results.InPlanTime(r.Result))
			said := func(f headline.Fact) string { return f.Name + ": " + f.Text }
			v.Lines = append(r.Result.Headline.Lines(), lists.Each(facts, said)...)
		}
		return v
	case s == nil:
		return verdictView{Verdict: "WAITING", Class: "suspect", Lines: append([]string{r.waiting()}, r.latest()...)}
	}
	v := verdictView{Verdict: cmp.Or(s.Verdict, "NOT JUDGED"), Class: classes[s.Verdict], Doubts: s.Doubts}
	if s.InProgress() {
		v.Verdict += " so far"
	}
	if !r.Over() {
		v.Lines = slices.Concat(r.lost(), overdue(s), r.invalid(s))
	}
	if len(v.Lines) > 0 {
		v.Class = "invalid"
	} else if s.Verdict == "VALID" {
		v.Lines = []string{"Every check of this stage passes."}
	}
	if !r.Over() && !s.InProgress() {
		v.Lines = append(v.Lines, r.latest()...)
	}
	return v
}

// invalid names the stages other than the one shown whose numbers cannot be used.
func (r Run) invalid(shown *watch.Stage) []string {
	before := lists.Where(r.State.All(), func(s *watch.Stage) bool { return s.Verdict == "INVALID" && s != shown })
	if before == nil {
		return nil
	}
	numbers := lists.Each(before, func(s *watch.Stage) string { return fmt.Sprint(s.Index + 1) })
	return []string{"INVALID before: stage " + words.Shorten(numbers, 5)}
}

// latest returns the newest notice.
func (r Run) latest() []string {
	if all := r.State.Notices(); len(all) > 0 {
		return []string{watch.NoticeText(all[len(all)-1])}
	}
	return nil
}

// mostLost is how many lost agents are named.
const mostLost = 3

// lost says of each lost agent what follows.
func (r Run) lost() (lines []string) {
	seen := map[string]bool{}
	for _, n := range slices.Backward(r.State.Notices()) {
		name := n.Change.GetAgent().GetName()
		if n.Change == nil || seen[name] {
			continue
		}
		if seen[name] = true; !n.Change.GetJoined() {
			lines = append(lines, watch.NoticeText(n))
		}
	}
	if more := len(lines) - mostLost; more > 0 {
		lines = append(lines[:mostLost], words.Count(uint64(more), "more agent")+" lost")
	}
	if lines != nil { // such as who takes over
		lines = words.AppendOnce(lines, r.latest()[0])
	}
	return lines
}

// overdue says how far a stage is beyond its time, and what it waits for.
func overdue(s *watch.Stage) []string {
	const slack = 5 * time.Second
	over := s.Elapsed() - s.Started.GetExpected().AsDuration()
	if !s.InProgress() || s.Started.GetExpected() == nil || over < slack {
		return nil
	}
	return []string{fmt.Sprintf("The stage should have ended %s ago: it waits for %s in flight", watch.Span(over),
		words.Count(uint64(s.Progress.GetInFlight()), "request"))}
}

// noticeView is a notice in its list.
type noticeView struct{ Class, Time, Text string }

// notices returns the notices, the newest first.
func notices(r *watch.Run) (list []noticeView) {
	for _, n := range slices.Backward(r.Notices()) {
		v := noticeView{Class: "info", Text: watch.NoticeText(n)}
		switch n.Severity {
		case spatev1.Severity_SEVERITY_WARNING:
			v.Class = "warning"
		case spatev1.Severity_SEVERITY_ERROR:
			v.Class = "error"
		}
		if !n.Time.IsZero() {
			v.Time = n.Time.UTC().Format("15:04:05")
		}
		list = append(list, v)
	}
	return list
}

// carried is what the curve of a run shows.
const carried = "output_token_throughput"

// curve draws the throughput of the stages that have ended by their load, for the target and workload of a stage, over
// that of the plan's last run in grey. There is none before two points are known, and none after the run's end, whose
// report has it.
func (r Run) curve(s *watch.Stage) []figure {
	c := chart.Chart{Label: "Output tokens per second by load", Width: 420, Height: 170, Y: chart.Axis{Zero: true},
		X: chart.Axis{Label: "load"}, Description: "The numbers are in the table of stages."}
	var now []*spatev1.HistoryLine
	for _, e := range r.State.All() {
		if e.Ended != nil && e.Progress != nil && e.Progress.OutputTokensPerSecond != nil {
			value := []*spatev1.HistoryPoint{{Value: e.Progress.GetOutputTokensPerSecond()}}
			now = append(now, &spatev1.HistoryLine{Target: e.Started.GetTarget(), Workload: e.Started.GetWorkload(),
				Load: e.Started.GetLoad(), Points: value})
		}
	}
	known := 0
	for side, stages := range [][]*spatev1.HistoryLine{r.Before, now} {
		var line []chart.Point
		for _, l := range stages {
			p := chart.Point{Y: l.GetPoints()[0].GetValue()}
			_, err := fmt.Sscanf(strings.TrimPrefix(l.GetLoad(), "concurrency "), "%g", &p.X)
			if err == nil && l.GetTarget() == s.Started.GetTarget() && l.GetWorkload() == s.Started.GetWorkload() {
				p.Title = fmt.Sprintf("%s: %s tok/s", watch.Clean(l.GetLoad()), watch.Rate(p.Y))
				line = append(line, p)
			}
		}
		slices.SortStableFunc(line, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
		known += len(line)
		c.Series = append(c.Series, chart.Series{Style: chart.Style{Past: side == 0}, Lines: [][]chart.Point{line}})
	}
	if known < 2 {
		return nil
	}
	return []figure{{"Output by load", "tok/s; grey: the last run of the plan", c.SVG()}}
}

// shown is how many windows charts show: the last ones.
const shown = 300

// figure is a chart with its caption.
type figure struct {
	Caption, Unit string
	SVG           template.HTML
}

// charts draws the last windows of a stage. There are none before the second one.
func charts(s *watch.Stage, windows []*spatev1.StageWindow) (list []figure) {
	windows = windows[max(0, len(windows)-shown):]
	if len(windows) < 2 {
		return nil
	}
	seconds := func(p *spatev1.WindowPart) float64 { return float64(max(1, p.GetSeconds())) }
	list = append(list, draw("Requests", "completed per second", false, windows, nil, func(p *spatev1.WindowPart) float64 {
		return float64(p.GetCompleted()) / seconds(p)
	}))
	switch {
	case s.Started.GetWhole():
	case windows[len(windows)-1].GetWhole().OutputTokensPerSecond != nil:
		list = append(list, draw("Output", "tok/s", false, windows, nil, func(p *spatev1.WindowPart) float64 {
			if p == nil || p.OutputTokensPerSecond == nil {
				return math.NaN()
			}
			return p.GetOutputTokensPerSecond()
		}))
	default:
		list = append(list, draw("Output", "frames/s", false, windows, nil, (*spatev1.WindowPart).GetFramesPerSecond))
	}
	for _, m := range watch.Metrics(s) {
		of := func(quantile func(*spatev1.WindowDistribution) float64) func(*spatev1.WindowPart) float64 {
			return func(p *spatev1.WindowPart) float64 {
				if d := watch.Distribution(p, m.Name); d != nil {
					return quantile(d)
				}
				return math.NaN()
			}
		}
		list = append(list, draw(strings.TrimSuffix(m.Label, " ms"), "ms, p50 and p99 (dashed) of each second", true, windows,
			of((*spatev1.WindowDistribution).GetP99), of((*spatev1.WindowDistribution).GetP50)))
	}
	return list
}

// draw draws a number of each window. above is a second one, drawn dashed, or nil.
func draw(
	caption, unit string, log bool, windows []*spatev1.StageWindow, above, number func(*spatev1.WindowPart) float64,
) figure {
	c := chart.Chart{
		Label: caption + " by second", Width: 420, Height: 170,
		Description: "The numbers of the last second are in the text of the page.",
		X:           chart.Axis{Label: "seconds since the stage's start"}, Y: chart.Axis{Log: log, Zero: !log},
	}
	for i, of := range []func(*spatev1.WindowPart) float64{number, above} {
		if of != nil {
			c.Series = append(c.Series, chart.Series{
				Style: chart.Style{Number: i, Dashed: i > 0}, Area: !log, Lines: lines(windows, of),
			})
		}
	}
	return figure{Caption: caption, Unit: unit, SVG: c.SVG()}
}

// lines returns a number of each window as lines, which are broken where it is not known.
func lines(windows []*spatev1.StageWindow, of func(*spatev1.WindowPart) float64) (all [][]chart.Point) {
	broken := true
	for _, w := range windows {
		v := of(w.GetWhole())
		if math.IsNaN(v) || math.IsInf(v, 0) {
			broken = true
			continue
		}
		if broken {
			all, broken = append(all, nil), false
		}
		all[len(all)-1] = append(all[len(all)-1], chart.Point{X: float64(w.GetNumber()), Y: v})
	}
	return all
}
