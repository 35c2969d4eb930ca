package page

import (
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/report/page/chart"
)

// view is what the template shows.
type view struct {
	Input
	Run       results.RunResult
	Title     string
	Policy    string
	CSS       template.CSS
	JS        template.JS
	Verdict   banner
	ByTokens  []best // of groups with output tokens
	ByRequest []best // of groups without
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
		Verdict: bannerOf(in.Result), Workloads: workloadsOf(in.Groups), Timeline: timelineOf(&in),
	}
	if plan := v.Run.Plan; plan != nil {
		v.Title = *plan
	}
	v.Details = slices.Clone(in.Details)
	for i := range v.Details {
		shorten(&v.Details[i])
	}
	for _, g := range in.Groups {
		if g.Tokens() {
			v.ByTokens = append(v.ByTokens, bestOf(g))
		} else {
			v.ByRequest = append(v.ByRequest, bestOf(g))
		}
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

// banner is the first thing on the page: whether the numbers can be used.
type banner struct{ Class, Mark, Words string }

// bannerOf returns the banner of a run.
func bannerOf(r *results.Result) banner {
	switch verdict := r.Run.Verdict; {
	case verdict == nil:
		return banner{"suspect", "NOT JUDGED", "No stage was measured, so there are no numbers to believe."}
	case *verdict == trust.Invalid:
		return banner{"invalid", "INVALID", "Some numbers do not measure what their names say. Do not use them."}
	case !r.Run.Complete:
		return banner{"suspect", "INCOMPLETE", "Something is missing. What is here was measured."}
	case *verdict == trust.Suspect:
		return banner{"suspect", "SUSPECT", "Read the reasons below before you use the numbers."}
	}
	return banner{"valid", "VALID", "The numbers can be believed."}
}

// best is what a group achieved at most.
type best struct {
	Group
	// Most is the stage with the highest throughput. Knee is the stage with the lowest load that has at least kneeShare
	// of it. Nil: there is none of which throughput is known.
	Most, Knee *Row
	// Believed reports whether a stage of the group is complete and free of INVALID. Others do not count.
	Believed bool
}

// kneeShare is the share of the highest throughput from which on more load brings mostly waiting.
const kneeShare = 0.95

// bestOf returns what a group achieved in the stages that can be believed.
func bestOf(g Group) best {
	b := best{Group: g}
	rows := slices.DeleteFunc(byValue(g.Rows), func(r Row) bool { return doubtIn(r.Stage) == chart.Invalid })
	b.Believed = len(rows) > 0
	rows = slices.DeleteFunc(rows, func(r Row) bool { return g.throughput(r) == nil })
	for i, r := range rows {
		if b.Most == nil || *g.throughput(r) > *g.throughput(*b.Most) {
			b.Most = &rows[i]
		}
	}
	for i, r := range rows {
		if *g.throughput(r) >= kneeShare**g.throughput(*b.Most) {
			b.Knee = &rows[i]
			break
		}
	}
	return b
}

// throughput returns the output tokens of a row per second, or its requests if the group has no output tokens. Nil: not
// known.
func (g Group) throughput(r Row) *float64 {
	if g.Tokens() {
		return r.Stage.OutputTokenThroughput
	}
	return r.Stage.RequestThroughput
}

// doubtOf returns the class of a stage: "valid", "suspect" or "invalid".
func doubtOf(s results.StageResult) string { return strings.ToLower(string(s.Trust.Verdict)) }

// marksOf returns the marks without which a stage must not be shown: its verdict unless it is VALID, and whether
// something is missing.
func marksOf(s results.StageResult) (marks []string) {
	if s.Trust.Verdict != trust.Valid {
		marks = append(marks, string(s.Trust.Verdict))
	}
	if !s.Complete {
		marks = append(marks, "INCOMPLETE")
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
