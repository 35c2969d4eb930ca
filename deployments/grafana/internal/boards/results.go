package boards

import "slices"

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
		figure("Worst verdict", "Whether the measurement of each stage can be trusted. The report has the reasons.",
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

// compare shows results of several runs side by side.
func compare() Board {
	byConcurrency := func(title, field string) Panel {
		return curve(title+" p99 by concurrency", "Stages of closed loops.", concurrency, p99(title, field),
			byRuns, closed)
	}
	return board("spate-compare", "Spate: compare runs",
		"Choose several runs. All numbers are final and merged. They do not depend on the time range.",
		"now-7d", "",
		[]Panel{throughputAgainst("TTFT", "ttft_ms", byRuns).high(12),
			throughputAgainst("TPOT", "tpot_ms", byRuns).high(12)},
		[]Panel{byConcurrency("TTFT", "ttft_ms").high(12), byConcurrency("TPOT", "tpot_ms").high(12),
			byConcurrency("E2E", "e2e_ms").high(12)},
		[]Panel{resultTable("Results", "Sort by load to see the runs' stages beside each other.", "spate_stage", ofAll,
			[]string{"run", "target", "workload", "load", "verdict"}, ofWhole...).high(16)},
		[]Panel{happened("What went wrong",
			ofKinds("agent_lost|agent_joined|warning|error_burst|stage_ended|run_ended")+" AND "+irregular)},
	).several()
}
