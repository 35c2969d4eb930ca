package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate"
)

// grid is one table: the load points of one kind of one target and workload.
type grid struct {
	target, workload string
	isl, osl         *uint32
	openLoop         bool
	stages           []aggregate.StageResult
	searches         []aggregate.SearchResult
}

// gridKey tells tables apart.
type gridKey struct {
	target, workload string
	openLoop         bool
}

// gridsOf sorts stages into tables, in the order of their first stages, and puts each search with its stages.
func gridsOf(r *aggregate.Result) []*grid {
	var grids []*grid
	byKey := make(map[gridKey]*grid)
	for _, s := range r.Stages {
		key := gridKey{s.Target, s.Workload, s.Load.Concurrency == nil}
		g := byKey[key]
		if g == nil {
			g = &grid{target: s.Target, workload: s.Workload, isl: s.ISL.Asked, osl: s.OSL.Asked,
				openLoop: key.openLoop}
			byKey[key] = g
			grids = append(grids, g)
		}
		g.stages = append(g.stages, s)
	}
	for _, s := range r.Run.Searches {
		if g := byKey[gridKey{s.Target, s.Workload, s.Unit == "rate"}]; g != nil {
			g.searches = append(g.searches, s)
		}
	}
	for _, g := range grids {
		slices.SortStableFunc(g.stages, byProbedLoad)
	}
	return grids
}

// byProbedLoad puts the stages of one search or sweep in the order of their loads, which they were not run in. Others
// stay where they are.
func byProbedLoad(a, b aggregate.StageResult) int {
	if a.Probe == nil || b.Probe == nil || a.Probe.Series != b.Probe.Series {
		return cmp.Compare(a.Index, b.Index)
	}
	return cmp.Or(cmp.Compare(loadValue(a.Load), loadValue(b.Load)), cmp.Compare(a.Index, b.Index))
}

// loadValue is a load point's concurrency or rate.
func loadValue(l aggregate.Load) float64 {
	switch {
	case l.Concurrency != nil:
		return float64(*l.Concurrency)
	case l.Rate != nil:
		return *l.Rate
	}
	return 0
}

// title names the table.
func (g *grid) title() string {
	shape := ""
	if g.isl != nil && g.osl != nil {
		shape = fmt.Sprintf("ISL:OSL=%d:%d", *g.isl, *g.osl)
	}
	if g.workload == fmt.Sprintf("%s:%s", whole(g.isl), whole(g.osl)) {
		return fmt.Sprintf("%s (%s)", g.target, shape)
	}
	if shape != "" {
		shape = " (" + shape + ")"
	}
	return fmt.Sprintf("%s, %s%s", g.target, g.workload, shape)
}

// loadHeader heads the column of load points.
func (g *grid) loadHeader() string {
	if g.openLoop {
		return "QPS"
	}
	return "Concurrency"
}

// loadCell is a stage's load point as a number, marked where the row needs a note.
func loadCell(s aggregate.StageResult) string {
	cell := unknown
	switch phases := s.Load.Phases; {
	case len(phases) > 0:
		cell = phasesCell(phases)
	case s.Load.ReplaySpeed != nil:
		cell = "trace x" + shortest(*s.Load.ReplaySpeed)
	case s.Load.Concurrency != nil:
		cell = strconv.FormatUint(uint64(*s.Load.Concurrency), 10)
	case s.Load.Rate != nil:
		cell = shortest(*s.Load.Rate)
	}
	if s.Load.Repeat > 0 {
		cell += fmt.Sprintf(" #%d", s.Load.Repeat+1)
	}
	if noteOf(s, &once{}) != "" {
		cell += " !"
	}
	return cell
}

// phasesCell is the values that a load goes through: "5-60-5".
func phasesCell(phases []aggregate.Phase) string {
	var values []string
	for _, p := range phases {
		for _, v := range []string{shortest(p.From), shortest(p.To)} {
			if len(values) == 0 || values[len(values)-1] != v {
				values = append(values, v)
			}
		}
	}
	const most = 4
	if len(values) > most {
		values = append(values[:most-1], "..")
	}
	return strings.Join(values, "-")
}

// shortest formats a number with as many digits as it needs, and no more than four significant ones behind the point.
func shortest(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// valuesOf are the numbers of a row, after its load point.
func (g *grid) valuesOf(s aggregate.StageResult) []*float64 {
	values := []*float64{
		s.RequestThroughput, s.OutputTokenThroughput, mean(s.E2E), p99(s.E2E), mean(s.TTFT), p99(s.TTFT), mean(s.TPOT),
		p99(s.TPOT),
	}
	if g.hasGoodput() {
		values = append(values, percent(s.Goodput))
	}
	return values
}

// hasGoodput says whether the plan had an SLO: then the table has a column for it.
func (g *grid) hasGoodput() bool { return g.stages[0].Goodput != nil }

// percent is the share of good requests in percent, nil if it is not known.
func percent(g *aggregate.Goodput) *float64 {
	if g == nil || g.Share == nil {
		return nil
	}
	p := 100 * *g.Share
	return &p
}

// conclusions say what the table's searches found, a line each.
func (g *grid) conclusions() []string {
	var lines []string
	for _, s := range g.searches {
		lines = append(lines, conclusion(s))
	}
	return lines
}

// conclusion says what a search found.
func conclusion(s aggregate.SearchResult) string {
	unit := "req/s"
	if s.Unit == "concurrency" {
		unit = "in flight"
	}
	line := fmt.Sprintf("search for the highest load with %s: ", strings.Join(s.Objectives, ", "))
	if s.Kept == nil {
		line += "none keeps it"
	} else {
		line += fmt.Sprintf("%s %s", shortest(*s.Kept), unit)
	}
	if s.Broke != nil {
		line += fmt.Sprintf("; %s does not", shortest(*s.Broke))
	}
	if s.Reason != nil {
		line += " (" + *s.Reason + ")"
	}
	if s.MeanThroughput != nil && s.ThroughputMargin != nil {
		line += fmt.Sprintf("; throughput there %.2f ± %.2f req/s, to 95 %%", *s.MeanThroughput, *s.ThroughputMargin)
	} else if s.Kept != nil {
		line += "; measured once"
	}
	if s.Verdict != nil {
		line += "; " + string(*s.Verdict)
	}
	if s.Doubts != nil {
		line += ": " + *s.Doubts
	}
	line += "; " + stages(uint64(s.Probes))
	if !s.Converged {
		line += ", not as close as was asked for"
	}
	return line
}

// stages is a number of stages.
func stages(n uint64) string {
	if n == 1 {
		return "1 stage"
	}
	return fmt.Sprintf("%d stages", n)
}

// exampleLimit is how much of a server's message a table's footnote takes; report.md and results.json have more of it.
const exampleLimit = 160

// firstExample is the start of one error's message, the most frequent class's.
func firstExample(s aggregate.StageResult) string {
	most := ""
	for _, class := range slices.Sorted(maps.Keys(s.Errors)) {
		if most == "" || s.Errors[class] > s.Errors[most] {
			most = class
		}
	}
	text := []rune(strings.Join(strings.Fields(s.ErrorExamples[most]), " "))
	if len(text) > exampleLimit {
		text = append(text[:exampleLimit], '…')
	}
	return string(text)
}

// noteOf says what a reader of a row must know: that something is missing, that it ended early, or that requests
// failed. Empty: nothing. What the table's other notes have said is not said again.
func noteOf(s aggregate.StageResult, o *once) string {
	var notes []string
	if !s.Complete {
		notes = append(notes, "PARTIAL: "+o.missing(fmt.Sprint(s.Load), s.Missing))
	}
	if s.Enough != nil {
		notes = append(notes, "ended early: "+*s.Enough)
	}
	if s.Requests.Failed > 0 {
		notes = append(notes, mark(s, "errors")+fmt.Sprintf("%d of %d requests failed (%s)", s.Requests.Failed,
			s.Requests.Started, errorCounts(s.Errors)))
	}
	if s.Requests.Cancelled > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d requests were cut off", s.Requests.Cancelled, s.Requests.Started))
	}
	if missed := worst(s.ISL.MissedShare); missed > 0 {
		notes = append(notes, mark(s, "isl")+fmt.Sprintf("%.1f %% of the prompts were not of the length asked",
			100*missed))
	}
	if missed := worst(s.OSL.MissedShare); missed > 0 {
		notes = append(notes, mark(s, "osl")+fmt.Sprintf("%.1f %% of the outputs were not of the length asked%s",
			100*missed, unforced(s)))
	}
	if never := s.Requests.NeverSent; never != nil && *never > 0 {
		notes = append(notes, mark(s, "never_sent")+fmt.Sprintf("%d requests were never sent", *never))
	}
	if s.DroppedRecords > 0 {
		notes = append(notes, fmt.Sprintf("%d request rows are missing from the requests file, nothing else: an agent's memory for them was full", s.DroppedRecords))
	}
	return strings.Join(append(notes, doubts(s)...), "; ")
}

// missedLimit is the share of requests of another length than asked that readers are told of.
const missedLimit = 0.01

// worst is a share that is worth a note, else 0.
func worst(missed *float64) float64 {
	if missed == nil || *missed <= missedLimit {
		return 0
	}
	return *missed
}

// unforced says that the server was not asked for exact lengths, if it was not.
func unforced(s aggregate.StageResult) string {
	for _, p := range s.Preparations {
		if !p.ExactOutput {
			return ", which the server was not asked to enforce"
		}
	}
	return ""
}

// sortedKeys are the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
