package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
)

// grid is one table: the stages of one target and workload, either all open loop or all closed loop.
type grid struct {
	plan             string
	target, workload string
	isl, osl         *uint32
	openLoop         bool
	stages           []results.StageResult
	series           []results.SeriesResult
	repeats          []results.Repeats
}

// gridKey identifies a table.
type gridKey struct {
	target, workload string
	openLoop         bool
}

// gridsOf groups stages into tables, in the order of their first stages, and adds what searches, frontiers and sweeps
// found to the table of their stages.
func gridsOf(r *results.Result) []*grid {
	var grids []*grid
	byKey := make(map[gridKey]*grid)
	for _, s := range r.Stages {
		key := gridKey{s.Target, s.Workload, s.Load.Concurrency == nil}
		g := byKey[key]
		if g == nil {
			g = &grid{target: s.Target, workload: s.Workload, isl: s.ISL.Asked, osl: s.OSL.Asked,
				openLoop: key.openLoop, plan: *cmp.Or(r.Run.Plan, new(""))}
			byKey[key] = g
			grids = append(grids, g)
		}
		g.stages = append(g.stages, s)
	}
	for _, s := range r.Run.Series {
		if g := byKey[gridKey{s.Target, s.Workload, s.Unit == "rate"}]; g != nil {
			g.series = append(g.series, s)
		}
	}
	for _, all := range r.Repeats {
		for _, g := range grids {
			if slices.ContainsFunc(g.stages, func(s results.StageResult) bool { return s.Index == all.Stages[0] }) {
				g.repeats = append(g.repeats, all)
			}
		}
	}
	for _, g := range grids {
		slices.SortStableFunc(g.stages, byProbedLoad)
	}
	return grids
}

// byProbedLoad orders the stages of one search or sweep by load, because they do not run in that order. It orders
// others by index.
func byProbedLoad(a, b results.StageResult) int {
	if a.Probe == nil || b.Probe == nil || a.Probe.Series != b.Probe.Series {
		return cmp.Compare(a.Index, b.Index)
	}
	return cmp.Or(cmp.Compare(a.Load.Value(), b.Load.Value()), cmp.Compare(a.Index, b.Index))
}

// title returns the title of the table.
func (g *grid) title() string {
	shape, usual := "", ""
	switch {
	case g.isl != nil && g.osl != nil:
		shape, usual = fmt.Sprintf("ISL:OSL=%d:%d", *g.isl, *g.osl), fmt.Sprintf("%d:%d", *g.isl, *g.osl)
	case g.isl != nil:
		shape, usual = fmt.Sprintf("ISL=%d", *g.isl), strconv.FormatUint(uint64(*g.isl), 10)
	}
	if g.workload == usual || g.osl == nil && g.isl != nil && strings.HasPrefix(g.workload, usual+":") {
		return fmt.Sprintf("%s (%s)", g.target, shape)
	}
	if shape != "" {
		shape = " (" + shape + ")"
	}
	return fmt.Sprintf("%s, %s%s", g.target, g.workload, shape)
}

// loadHeader returns the header of the column of loads.
func (g *grid) loadHeader() string {
	if g.openLoop {
		return "QPS"
	}
	return "Concurrency"
}

// loadCell returns a stage's load as a number, with a mark if the row has a note.
func loadCell(s results.StageResult) string {
	cell := unknown
	switch phases := s.Load.Phases; {
	case len(phases) > 0:
		cell = phasesCell(phases)
	case s.Load.ReplaySpeed != nil:
		cell = "replay x" + shortest(*s.Load.ReplaySpeed)
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

// phasesCell returns the values that a load goes through: "5-60-5".
func phasesCell(phases []results.Phase) string {
	var values []string
	for _, p := range phases {
		values = append(values, shortest(p.From), shortest(p.To))
	}
	values = slices.Compact(values)
	const most = 4
	if len(values) > most {
		values = append(values[:most-1], "..")
	}
	return strings.Join(values, "-")
}

// shortest formats a number with as few digits as possible: at most four significant digits below 1000, and all digits
// from 1000 up.
func shortest(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// row is a row of a table: its load and numbers.
type row struct {
	load   string
	values []marked
}

// rows returns a row for each stage, after it what was published for its load, and after the repeats of a load one for
// all of them.
func (g *grid) rows() (rows []row) {
	for _, s := range g.stages {
		rows = append(rows, row{loadCell(s), g.valuesOf(s)})
		if published := g.published(s); published != nil {
			rows = append(rows, row{"published", published}, row{"ratio", ratios(g.valuesOf(s), published)})
		}
		for _, all := range g.repeats {
			if all.Stages[len(all.Stages)-1] == s.Index {
				load, _, _ := strings.Cut(strings.TrimSuffix(loadCell(s), " !"), " #")
				rows = append(rows, row{fmt.Sprintf("%s all %d", load, len(all.Stages)), g.valuesOf(*all.Stage())})
			}
		}
	}
	return rows
}

// column is a number of the tables of results.
type column struct {
	name      string // of the number in results.json
	published string // in published.yaml
	// Headers: in Markdown, and for a wide and a narrow terminal, with a word or two per line.
	long, wide, narrow string
}

// columns are all of them.
var columns = []column{
	{requestRate, "requests_per_second", "Request Throughput (req/s)", "Request\nThroughput\n(req/s)", "req\n/s"},
	{outputTokens, "tokens_per_second", "Output Token Throughput (tok/s)", "Output Token\nThroughput\n(tok/s)", "tok\n/s"},
	{textRate, "", "Text Throughput (texts/s)", "Text\nThroughput\n(texts/s)", "text\n/s"},
	{"e2e_ms.mean", "e2e", "Mean E2E Latency (ms)", "Mean\nE2E\n(ms)", "E2E\nmean"},
	{"e2e_ms.p99", "e2e_p99", "P99 E2E Latency (ms)", "P99\nE2E\n(ms)", "E2E\np99"},
	{"ttft_ms.mean", "ttft", "Mean TTFT (ms)", "Mean\nTTFT\n(ms)", "TTFT\nmean"},
	{"ttft_ms.p99", "ttft_p99", "P99 TTFT (ms)", "P99\nTTFT\n(ms)", "TTFT\np99"},
	{"tpot_ms.mean", "tpot", "Mean TPOT (ms)", "Mean\nTPOT\n(ms)", "TPOT\nmean"},
	{"tpot_ms.p99", "tpot_p99", "P99 TPOT (ms)", "P99\nTPOT\n(ms)", "TPOT\np99"},
	{goodShare, "good", "Good (%)", "\nGood\n(%)", "good\n%"},
}

// Numbers that are no latencies.
const (
	requestRate, outputTokens = "request_throughput", "output_token_throughput"
	textRate, goodShare       = "text_throughput", "goodput.share"
)

// columns returns the columns of the table. It leaves out those that only streams fill, if the answers of all stages
// were requested in one piece, then also output tokens, if no stage has any, texts, if none are counted, and goodput,
// if the plan has no SLO.
func (g *grid) columns() []column {
	streams := slices.ContainsFunc(g.stages, func(s results.StageResult) bool { return s.Stream })
	tokens := slices.ContainsFunc(g.stages, func(s results.StageResult) bool { return s.OutputTokenThroughput != nil })
	return slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		switch c.name {
		case goodShare:
			return g.stages[0].Goodput == nil
		case textRate:
			return !slices.ContainsFunc(g.stages, func(s results.StageResult) bool { return s.TextThroughput != nil })
		case outputTokens:
			return !streams && !tokens
		}
		return !streams && (strings.HasPrefix(c.name, "ttft") || strings.HasPrefix(c.name, "tpot"))
	})
}

// marked is a number with its mark.
type marked struct {
	value *float64
	mark  string
}

// valuesOf returns the numbers of a row, after its load.
func (g *grid) valuesOf(s results.StageResult) (values []marked) {
	for _, c := range g.columns() {
		v := marked{value: s.Number(c.name)}
		if c.name == goodShare {
			v.value = percent(s.Goodput)
		} else if v.value != nil {
			v.mark = s.Mark(c.name)
		}
		values = append(values, v)
	}
	return values
}

// partCells returns the numbers of a part of a stage in all columns but that of goodput, with their marks.
func partCells(s *results.StageResult, requests, tokens *float64, part *results.Latencies) (cells []any) {
	for _, c := range columns {
		value := part.Number(c.name)
		switch c.name {
		case requestRate:
			value = requests
		case outputTokens:
			value = tokens
		case goodShare, textRate:
			continue
		}
		cells = append(cells, markedText(value, s.MarkIn(part, c.name)))
	}
	return cells
}

// markedText formats a number with its mark.
func markedText(v *float64, mark string) string {
	if v == nil {
		return unknown
	}
	return fixed(v) + mark
}

// fewNotes returns, for each stage that has them, the intervals of percentiles beyond which few values lie.
func (g *grid) fewNotes() (notes []string) {
	for _, s := range g.stages {
		if words := s.FewWords("p99"); words != "" {
			notes = append(notes, fmt.Sprintf("%s %s: %s", results.OfFew, s.Load, words))
		}
	}
	return notes
}

// percent returns the share of good requests in percent, or nil if it is not known.
func percent(g *results.Goodput) *float64 {
	if g == nil || g.Share == nil {
		return nil
	}
	return new(100 * *g.Share)
}

// conclusions returns what the table's searches, frontiers and sweeps found, one line each.
func (g *grid) conclusions() (lines []string) {
	lines = lists.Each(g.series, func(s results.SeriesResult) string { return s.Words() })
	if near := g.nearness(); near != "" {
		lines = append(lines, near)
	}
	return lines
}

// exampleLimit is the largest length of a server's message in a table's footnote, in characters; report.md and
// results.json have more of it.
const exampleLimit = 160

// noteOf returns what a reader of a row must know, for example that something is missing, that the stage ended early,
// or that requests failed. It returns "" if there is nothing to know. It does not repeat what the table's other notes
// have said.
func noteOf(s results.StageResult, o *once) string {
	var notes []string
	if !s.Complete {
		notes = append(notes, "PARTIAL: "+o.missing(fmt.Sprint(s.Load), s.Missing))
	}
	if s.Enough != nil {
		notes = append(notes, "ended early: "+*s.Enough)
	}
	if s.Requests.Failed > 0 {
		notes = append(notes, mark(s, "errors")+fmt.Sprintf("%d of %d requests failed (%s)", s.Requests.Failed,
			s.Requests.Failed+s.Requests.Completed, trust.ErrorCounts(s.Errors)))
	}
	if s.Requests.Cancelled > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d requests were cancelled", s.Requests.Cancelled, s.Requests.Started))
	}
	if missed := worst(s.ISL.MissedShare); missed > 0 {
		notes = append(notes, mark(s, "isl")+fmt.Sprintf("%.1f %% of the prompts did not have the requested length",
			100*missed))
	}
	if missed := worst(s.OSL.MissedShare); missed > 0 {
		notes = append(notes, mark(s, "osl")+fmt.Sprintf("%.1f %% of the outputs did not have the requested length%s",
			100*missed, unforced(s)))
	}
	if never := s.Requests.NeverSent; never != nil && *never > 0 {
		words := fmt.Sprintf("%d requests were never sent", *never)
		if broken := s.Requests.AfterFailure; broken != nil && *broken > 0 {
			words += fmt.Sprintf(", %d of them because a request of their session failed that they waited for", *broken)
		}
		notes = append(notes, cmp.Or(mark(s, "never_sent"), mark(s, "broken_sessions"))+words)
	}
	if s.DroppedRecords > 0 {
		notes = append(notes, fmt.Sprintf("%d request rows are missing from the requests file, nothing else: an agent's memory for them was full", s.DroppedRecords))
	}
	return strings.Join(append(notes, doubts(s)...), "; ")
}

// missedLimit is the share of requests with another length than the one asked for, above which a row gets a note.
const missedLimit = 0.01

// worst returns a share that is above missedLimit, otherwise 0.
func worst(missed *float64) float64 {
	if missed == nil || *missed <= missedLimit {
		return 0
	}
	return *missed
}

// unforced returns words for a note if the server was not asked for exact lengths.
func unforced(s results.StageResult) string {
	if slices.ContainsFunc(s.Preparations, func(p results.Preparation) bool { return !p.ExactOutput }) {
		return ", which requests did not enforce"
	}
	return ""
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
