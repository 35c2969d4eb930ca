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
}

// gridKey tells tables apart.
type gridKey struct {
	target, workload string
	openLoop         bool
}

// gridsOf sorts stages into tables, in the order of their first stages.
func gridsOf(stages []aggregate.StageResult) []*grid {
	var grids []*grid
	byKey := make(map[gridKey]*grid)
	for _, s := range stages {
		key := gridKey{s.Target, s.Workload, s.Load.Concurrency == nil}
		g := byKey[key]
		if g == nil {
			g = &grid{target: s.Target, workload: s.Workload, isl: s.ISL.Asked, osl: s.OSL.Asked, openLoop: key.openLoop}
			byKey[key] = g
			grids = append(grids, g)
		}
		g.stages = append(g.stages, s)
	}
	return grids
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
	switch {
	case s.Load.Concurrency != nil:
		cell = strconv.FormatUint(uint64(*s.Load.Concurrency), 10)
	case s.Load.Rate != nil:
		cell = strconv.FormatFloat(*s.Load.Rate, 'g', -1, 64)
	}
	if noteOf(s) != "" {
		cell += " !"
	}
	return cell
}

// valuesOf are the numbers of a row, after its load point.
func valuesOf(s aggregate.StageResult) []*float64 {
	return []*float64{
		s.RequestThroughput, s.OutputTokenThroughput, mean(s.E2E), p99(s.E2E), mean(s.TTFT), p99(s.TTFT), mean(s.TPOT), p99(s.TPOT),
	}
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

// noteOf says what a reader of a row must know: that something is missing, or that requests failed. Empty: nothing.
func noteOf(s aggregate.StageResult) string {
	var notes []string
	if !s.Complete {
		notes = append(notes, "PARTIAL: "+strings.Join(s.Missing, "; "))
	}
	if s.Requests.Failed > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d requests failed (%s)", s.Requests.Failed, s.Requests.Started, errorCounts(s.Errors)))
	}
	if s.Requests.Cancelled > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d requests were cut off", s.Requests.Cancelled, s.Requests.Started))
	}
	if never := s.Requests.NeverSent; never != nil && *never > 0 {
		notes = append(notes, fmt.Sprintf("%d requests were never sent", *never))
	}
	return strings.Join(notes, "; ")
}

// sortedKeys are the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
