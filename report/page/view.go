package page

import (
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/report/headline"
)

// view is what the template shows.
type view struct {
	Input
	Run       results.RunResult
	Title     string
	Policy    string
	CSS       template.CSS
	JS        template.JS
	Verdict   verdict
	Tested    [][]string
	Answer    *results.Headline
	Facts     []headline.Fact
	Workloads []workload
	Timeline  *timeline
	PlanText  string
}

// viewOf prepares what the template shows.
func viewOf(in Input) view {
	v := view{
		Input: in, Run: in.Result.Run, Title: "Run " + in.Result.Run.ID, PlanText: string(in.Plan),
		Policy: "default-src 'none'; style-src " + hash(style) + "; script-src " + hash(script) +
			"; base-uri 'none'; form-action 'none'",
		CSS: template.CSS(style), JS: template.JS(script), //nolint:gosec // both are ours
		Verdict: verdictOf(in.Result), Tested: tested(in.Result),
		Answer: in.Result.Headline, Facts: headline.Facts(in.Result),
		Workloads: workloadsOf(&in), Timeline: timelineOf(&in),
	}
	for _, g := range in.Groups {
		for i := range g.Rows {
			if r := &g.Rows[i]; len(in.Result.Stages) <= manyStages {
				r.Slow = slowOf(in.Result, r.Stage)
			}
		}
	}
	if plan := v.Run.Plan; plan != nil {
		v.Title = *plan
	}
	v.Details = slices.Clone(in.Details)
	for i := range v.Details {
		shorten(&v.Details[i])
	}
	return v
}

// mostRows is how many rows of a table the page shows.
const mostRows = 1000

// shorten leaves out the rows of a section's tables beyond mostRows, and says so.
func shorten(s *table.Section) {
	var blocks []table.Block
	for _, b := range s.Blocks {
		cut := table.Block{}
		if b.Table != nil && len(b.Table.Rows) > mostRows {
			n, shown := len(b.Table.Rows), *b.Table
			shown.Rows = shown.Rows[:mostRows]
			b.Table = &shown
			cut = table.Text("Rows %d to %d are in report.md.", mostRows+1, n)
		}
		blocks = append(blocks, b, cut)
	}
	*s = table.NewSection(s.Title, blocks...)
}

// verdict is whether the numbers can be used.
type verdict struct{ Class, Mark string }

// verdictOf returns the verdict on a run.
func verdictOf(r *results.Result) verdict {
	switch v := r.Run.Verdict; {
	case v == nil:
		return verdict{"suspect", "NOT JUDGED"}
	case *v != trust.Invalid && !r.Run.Complete:
		return verdict{"suspect", "PARTIAL"}
	default:
		return verdict{strings.ToLower(string(*v)), string(*v)}
	}
}

// tested returns what was tested: for each target its model, server, API, hardware, labels and endpoints.
func tested(r *results.Result) (list [][]string) {
	for s := range lists.Refs(r.Stages) {
		if slices.ContainsFunc(list, func(of []string) bool { return of[0] == s.Target }) {
			continue
		}
		facts := []string{s.Target, s.Model}
		for _, p := range s.Preparations {
			facts = words.AppendOnce(facts, p.Server)
		}
		facts = append(facts, s.API+" API")
		if t := r.Run.Target(s.Target); t != nil {
			facts = append(facts, text(t.Hardware), strings.Join(naming.LabelTexts(t.Labels), ", "))
		}
		facts = append(facts, lists.Each(s.Endpoints[:min(len(s.Endpoints), mostEndpoints)],
			func(e results.EndpointResult) string { return e.URL })...)
		if more := len(s.Endpoints) - mostEndpoints; more > 0 {
			facts = append(facts, words.Count(uint64(more), "more endpoint"))
		}
		list = append(list, slices.DeleteFunc(facts, func(fact string) bool { return fact == "" || fact == unknown }))
	}
	return list
}

// mostEndpoints is how many endpoints of a target are named.
const mostEndpoints = 2

// doubtOf returns the class of a stage: "valid", "suspect" or "invalid".
func doubtOf(s results.StageResult) string { return strings.ToLower(string(s.Trust.Verdict)) }

// marksOf returns the marks without which a stage must not be shown: its verdict unless it is VALID, and whether
// something is missing.
func marksOf(s results.StageResult) (marks []string) {
	if s.Trust.Verdict != trust.Valid {
		marks = append(marks, string(s.Trust.Verdict))
	}
	if !s.Complete {
		marks = append(marks, "PARTIAL")
	}
	return marks
}

// when formats a time of results.json for a reader. It returns n/a for nil.
func when(t *string) string {
	if t == nil {
		return unknown
	}
	at, err := time.Parse(time.RFC3339Nano, *t)
	if err != nil {
		return *t
	}
	return at.UTC().Format("2 Jan 2006, 15:04:05 UTC")
}

// took formats the time from begin to end: "1h2m3s". It returns n/a if one of them is not known.
func took(begin, end *string) string {
	if begin == nil || end == nil {
		return unknown
	}
	from, err1 := time.Parse(time.RFC3339Nano, *begin)
	to, err2 := time.Parse(time.RFC3339Nano, *end)
	if err1 != nil || err2 != nil {
		return unknown
	}
	return to.Sub(from).Round(time.Second).String()
}
