package main

import (
	"slices"
	"strings"
)

// result is a column of a stage's result.
type result struct{ title, field, unit string }

// resultColumns are the columns of the tables at the end of sweeps, and what shows whether to believe them.
var resultColumns = []result{
	{"requests/s", "request_throughput", requestRate},
	{"output tok/s", "output_token_throughput", tokenRate},
	{"E2E mean", "e2e_ms_mean", milliseconds},
	{"E2E p99", "e2e_ms_p99", milliseconds},
	{"TTFT mean", "ttft_ms_mean", milliseconds},
	{"TTFT p99", "ttft_ms_p99", milliseconds},
	{"TPOT mean", "tpot_ms_mean", milliseconds},
	{"TPOT p99", "tpot_ms_p99", milliseconds},
	{"completed", "completed", count},
	{"failed", "failed", count},
	{"send delay p99", "send_delay_ms_p99", milliseconds},
}

// ofWhole are further columns, for a stage's own result.
var ofWhole = []result{
	{"good", "good", count}, {"ITL p99", "itl_ms_p99", milliseconds}, {"complete", "complete", ""},
}

// resultTable makes a table of results, with one row per stage in the order in which they ran. The first columns are
// tags.
func resultTable(title, description, from, where string, tags []string, more ...result) Panel {
	selections, shown := raws(tags), slices.Concat(resultColumns, more)
	units := make([]column, len(shown))
	for i, r := range shown {
		selections, units[i] = append(selections, raw(r.field, r.title)), column{r.title, r.unit}
	}
	return table(title, description, units, rows(from, where, selections...)).without("Time")
}

// stageTags identify a stage, and show whether its measurement can be trusted, which belongs before its numbers.
var stageTags = []string{"stage", "target", "workload", "load", "verdict"}

// raws selects columns as they are stored.
func raws(names []string) (all []string) {
	for _, name := range names {
		all = append(all, raw(name, name))
	}
	return all
}

// Axes of curves.
var (
	outputRate  = axis{"output tok/s", "output_token_throughput", tokenRate}
	requests    = axis{"requests/s", "request_throughput", requestRate}
	concurrency = axis{"concurrency", "concurrency", count}
)

// goodRate is the goodput.
const goodRate = `"good" / "duration_s"`

// p99 returns the axis of a latency's p99.
func p99(title, field string) axis { return axis{title + " p99", field + "_p99", milliseconds} }

// byPlan separates curves by what a plan sweeps over, byRuns also by run.
var (
	byPlan = []string{"target", "workload"}
	byRuns = []string{"run", "target", "workload"}
)

// sweep shows throughput against latency.
func sweep() Board {
	return board("spate-sweep", "Spate: sweep",
		"Results of the stages of a sweep, each point a stage. All numbers are final and merged. They do not depend on the time range.",
		"now-24h", "30s",
		highlights(),
		[]Panel{
			throughputAgainst("TTFT", "ttft_ms", byPlan),
			throughputAgainst("TPOT", "tpot_ms", byPlan),
			curve("Request throughput and E2E p99", "Each point is a stage.", requests, p99("E2E", "e2e_ms"), byPlan,
				closed, open),
		},
		[]Panel{resultTable("Results by load", "A row for each stage that has ended.", "spate_stage", ofAll, stageTags,
			ofWhole...).high(16)},
		[]Panel{doubts().without("Time", "run")},
		[]Panel{
			curve("Throughput by concurrency", "Stages of closed loops.", concurrency, outputRate, byPlan, closed),
			curve("Rate asked and achieved",
				"Stages of open loops: completed requests per second against the rate of the plan.",
				axis{"asked", "rate", requestRate}, axis{"achieved", "request_throughput", requestRate}, byPlan,
				loops{where: ` AND "rate" > 0`}),
			curve("Goodput", "Completed requests per second that met the whole SLO, against all. Empty without an SLO.",
				requests, axis{"good requests/s", goodRate, requestRate}, byPlan, closed, open),
		},
	)
}

// highlights shows the main results of a sweep in figures.
func highlights() []Panel {
	figure := func(title, description, unit, selection string) Panel {
		return stat(title, description, unit, "", query{text: rows("spate_stage", ofAll, selection)}).worded()
	}
	return []Panel{
		figure("Worst verdict", "Whether the measurement of each stage can be trusted. The reasons and remedies are below the table of results.",
			"", highest("verdict", "verdict")).judged(),
		figure("Highest output throughput", "Of all stages.", tokenRate,
			highest("output_token_throughput", "output tok/s")),
		figure("Highest request throughput", "Of all stages.", requestRate,
			highest("request_throughput", "requests/s")),
		figure("Stages done", "", count, `count("completed") AS "stages"`),
		figure("Requests completed", "In all stages.", count, `sum("completed") AS "completed"`),
		figure("Requests failed", "In all stages.", count, `sum("failed") AS "failed"`).limited(1),
	}
}

// throughputAgainst draws a latency's p99 over output tokens per second.
func throughputAgainst(title, field string, by []string) Panel {
	return curve("Output throughput and "+title+" p99", "Each point is a stage.", outputRate, p99(title, field), by,
		closed, open)
}

// compare shows the results of a run beside those of a baseline.
func compare() Board {
	byConcurrency := func(title, field string) Panel {
		return curve(title+" p99 by concurrency", "Stages of closed loops.", concurrency, p99(title, field),
			byRuns, closed).both().high(12)
	}
	return board("spate-compare", "Spate: compare runs",
		"Choose a run and a baseline. All numbers are final and merged. They do not depend on the time range.",
		"now-7d", "",
		[]Panel{beforeAndAfter().high(16)},
		[]Panel{doubts().both().without("Time")},
		[]Panel{throughputAgainst("TTFT", "ttft_ms", byRuns).both().high(12),
			throughputAgainst("TPOT", "tpot_ms", byRuns).both().high(12)},
		[]Panel{byConcurrency("TTFT", "ttft_ms"), byConcurrency("TPOT", "tpot_ms"), byConcurrency("E2E", "e2e_ms")},
		[]Panel{resultTable("Results", "Sort by load to see the stages of both runs beside each other.", "spate_stage", ofAll,
			[]string{"run", "target", "workload", "load", "verdict"}, ofWhole...).both().high(16)},
		[]Panel{happened("What went wrong",
			ofKinds("agent_lost|agent_joined|warning|error_burst|stage_ended|run_ended")+" AND "+irregular).both()},
	).withBaseline()
}

// compared are the results that a comparison shows before, after, and as a difference.
var compared = []result{
	{"req/s", "request_throughput", requestRate}, {"output tok/s", "output_token_throughput", tokenRate},
	{"TTFT p99", "ttft_ms_p99", milliseconds}, {"TPOT p99", "tpot_ms_p99", milliseconds},
	{"E2E p99", "e2e_ms_p99", milliseconds},
}

// beforeAndAfter shows the results of each load in both runs, adjacent, and how they differ.
func beforeAndAfter() Panel {
	const before, after, difference, change = " before", " after", " difference", " Δ"
	match := []string{"target", "workload", "load"}
	selections := func(when string) []string {
		all := append(raws(match), raw("verdict", "verdict"+when))
		for _, r := range compared {
			all = append(all, raw(r.field, r.title+when))
		}
		return all
	}
	order, hidden := slices.Concat(match, []string{"verdict" + before, "verdict" + after}), []string{}
	var numbers []column
	var changes []Transformation
	for _, r := range compared {
		numbers = append(numbers, column{r.title + before, r.unit}, column{r.title + after, r.unit},
			column{r.title + change, share})
		changes = append(changes, calculated(r.title+difference, r.title+after, "-", r.title+before),
			calculated(r.title+change, r.title+difference, "/", r.title+before))
		order = append(order, r.title+before, r.title+after, r.title+change)
		hidden = append(hidden, r.title+difference)
	}
	p := table("Before and after",
		"Stages are matched by target, workload and load. Δ is the change from the baseline to the run. "+
			"spate compare also says which changes are more than chance.",
		numbers, "")
	p.Targets = targets("table", []query{
		{text: strings.Replace(rows("spate_stage", ofAll, selections(before)...), ofRun, ofBaseline, 1)},
		{text: rows("spate_stage", ofAll, selections(after)...)},
	})
	for _, when := range []string{before, after} {
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, verdictColumn("verdict"+when))
	}
	// Rows of one load merge into one row only if all columns that both runs have are equal: their times are not.
	p = p.without("Time")
	p.Transformations = slices.Concat(p.Transformations, []Transformation{{ID: "merge", Options: map[string]any{}}}, changes)
	places := map[string]int{}
	for i, name := range order {
		places[name] = i
	}
	return p.organized(places, hidden...)
}
