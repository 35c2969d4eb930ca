package boards

// result is a column of a stage's result.
type result struct{ title, field, unit string }

// results are the columns of the tables that sweeps end with, and what tells whether to believe them.
var results = []result{
	{"requests/s", "request_throughput", requestRate},
	{"output tok/s", "output_token_throughput", tokenRate},
	{"E2E mean", "e2e_ms_mean", milliseconds},
	{"E2E p99", "e2e_ms_p99", milliseconds},
	{"TTFT mean", "ttft_ms_mean", milliseconds},
	{"TTFT p99", "ttft_ms_p99", milliseconds},
	{"TPOT mean", "tpot_ms_mean", milliseconds},
	{"TPOT p99", "tpot_ms_p99", milliseconds},
	{"ITL p99", "itl_ms_p99", milliseconds},
	{"completed", "completed", count},
	{"failed", "failed", count},
	{"send delay p99", "send_delay_ms_p99", milliseconds},
}

// ofWhole are further columns of a stage's own result.
var ofWhole = []result{
	{"good", "good", count}, {"total tok/s", "total_token_throughput", tokenRate}, {"duration", "duration_s", seconds}, {"complete", "complete", ""},
}

// resultTable is a table of results, a row for each stage, in the order in which they ran. The first columns are tags.
func resultTable(title, description, from, where string, tags []string, more ...result) Panel {
	selections, units, order := []string{}, map[string]string{}, []string{}
	for _, tag := range tags {
		selections = append(selections, raw(tag, tag))
	}
	for _, r := range append(results[:len(results):len(results)], more...) {
		selections = append(selections, raw(r.field, r.title))
		units[r.title], order = r.unit, append(order, r.title)
	}
	return table(title, description, units, order, rows(from, where, selections...)).without("Time")
}

// stageTags say which stage it is, and whether its measurement can be trusted, which belongs before its numbers.
var stageTags = []string{"stage", "target", "workload", "load", "verdict"}

// ofStages asks for results by which curves are drawn.
func ofStages(selections ...string) string {
	tags := []string{raw("run", "run"), raw("target", "target"), raw("workload", "workload")}
	return rows("spate_stage", ofAll, append(tags, selections...)...)
}

// byPlan parts curves by what a plan sweeps over, and byRuns runs as well.
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
			curve("Request throughput and E2E p99", "Each point is a stage.",
				ofStages(raw("request_throughput", "requests/s"), raw("e2e_ms_p99", "E2E p99")), axis{"requests/s", requestRate}, axis{"E2E p99", milliseconds}, byPlan...),
		},
		[]Panel{resultTable("Results by load", "A row for each stage that has ended.", "spate_stage", ofAll, stageTags, ofWhole...).high(16)},
		[]Panel{
			curve("Throughput by concurrency", "Stages of closed loops.",
				ofStages(raw("concurrency", "concurrency"), raw("output_token_throughput", "output tok/s")), axis{"concurrency", count}, axis{"output tok/s", tokenRate}, byPlan...),
			curve("Rate asked and achieved", "Stages of open loops: completed requests per second against the rate of the plan.",
				ofStages(raw("rate", "asked"), raw("request_throughput", "achieved")), axis{"asked", requestRate}, axis{"achieved", requestRate}, byPlan...),
			curve("Goodput", "Completed requests per second that kept the whole SLO, against all. Nothing without an SLO.",
				ofStages(raw("request_throughput", "requests/s"), `"good" / "duration_s" AS "good requests/s"`),
				axis{"requests/s", requestRate}, axis{"good requests/s", requestRate}, byPlan...),
		},
	)
}

// highlights are what a sweep comes to, in figures.
func highlights() []Panel {
	figure := func(title, description, unit, selection string) Panel {
		return stat(title, description, unit, "", query{text: rows("spate_stage", ofAll, selection)}).worded()
	}
	return []Panel{
		figure("Worst verdict", "Of all stages: whether their measurement can be trusted. The report has the reasons.", "", highest("verdict", "verdict")).judged(),
		figure("Highest output throughput", "Of all stages.", tokenRate, highest("output_token_throughput", "output tok/s")),
		figure("Highest request throughput", "Of all stages.", requestRate, highest("request_throughput", "requests/s")),
		figure("Stages done", "", count, `count("completed") AS "stages"`),
		figure("Requests completed", "In all stages.", count, `sum("completed") AS "completed"`),
		figure("Requests failed", "In all stages.", count, `sum("failed") AS "failed"`).limited(1),
	}
}

// throughputAgainst draws a latency's p99 over output tokens per second.
func throughputAgainst(title, field string, by []string) Panel {
	return curve("Output throughput and "+title+" p99", "Each point is a stage.",
		ofStages(raw("output_token_throughput", "output tok/s"), raw(field+"_p99", title+" p99")),
		axis{"output tok/s", tokenRate}, axis{title + " p99", milliseconds}, by...)
}

// compare shows results of several runs side by side.
func compare() Board {
	byConcurrency := func(title, field string) Panel {
		return curve(title+" p99 by concurrency", "Stages of closed loops.",
			ofStages(raw("concurrency", "concurrency"), raw(field+"_p99", title+" p99")), axis{"concurrency", count}, axis{title + " p99", milliseconds}, byRuns...)
	}
	return board("spate-compare", "Spate: compare runs",
		"Choose several runs. All numbers are final and merged. They do not depend on the time range.",
		"now-7d", "",
		[]Panel{throughputAgainst("TTFT", "ttft_ms", byRuns).high(12), throughputAgainst("TPOT", "tpot_ms", byRuns).high(12)},
		[]Panel{byConcurrency("TTFT", "ttft_ms").high(12), byConcurrency("TPOT", "tpot_ms").high(12), byConcurrency("E2E", "e2e_ms").high(12)},
		[]Panel{resultTable("Results", "Sort by load to see the runs' stages beside each other.", "spate_stage", ofAll,
			[]string{"run", "target", "workload", "load", "verdict"}, ofWhole...).high(16)},
		[]Panel{happened("What went wrong", "agent_lost|agent_joined|warning|error_burst|run_ended")},
	).several()
}
