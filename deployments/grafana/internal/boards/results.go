package boards

// result is a column of a stage's result.
type result struct{ title, field, unit string }

// results are the columns of the tables that sweeps end with.
var results = []result{
	{"requests/s", "request_throughput", requestRate},
	{"output tok/s", "output_token_throughput", tokenRate},
	{"total tok/s", "total_token_throughput", tokenRate},
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
	{"duration", "duration_s", seconds},
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
	return table(title, description, units, order, rows(from, where, selections...))
}

// stageTags say which stage it is.
var stageTags = []string{"run", "stage", "target", "workload", "load"}

// ofStages asks for results by which curves are drawn.
func ofStages(selections ...string) string {
	tags := []string{raw("run", "run"), raw("target", "target"), raw("workload", "workload")}
	return rows("spate_stage", ofAll, append(tags, selections...)...)
}

// byPlan parts curves by what a plan sweeps over.
var byPlan = []string{"run", "target", "workload"}

// sweep shows throughput against latency.
func sweep() Board {
	return board("spate-sweep", "Spate: sweep",
		"Results of the stages of a sweep, each point a stage. All numbers are final and merged. They do not depend on the time range.",
		"now-24h", "30s",
		[]Panel{resultTable("Results by load", "A row for each stage that has ended.", "spate_stage", ofAll, stageTags,
			result{"good", "good", count}, result{"complete", "complete", ""}).high(12)},
		[]Panel{
			throughputAgainst("TTFT", "ttft_ms"),
			throughputAgainst("TPOT", "tpot_ms"),
		},
		[]Panel{
			curve("Request throughput and E2E p99", "Each point is a stage.",
				ofStages(raw("request_throughput", "requests/s"), raw("e2e_ms_p99", "E2E p99")), axis{"requests/s", requestRate}, axis{"E2E p99", milliseconds}, byPlan...),
			curve("Throughput by concurrency", "Stages of closed loops.",
				ofStages(raw("concurrency", "concurrency"), raw("output_token_throughput", "output tok/s")), axis{"concurrency", count}, axis{"output tok/s", tokenRate}, byPlan...),
		},
		[]Panel{
			curve("Rate asked and achieved", "Stages of open loops: completed requests per second against the rate of the plan.",
				ofStages(raw("rate", "asked"), raw("request_throughput", "achieved")), axis{"asked", requestRate}, axis{"achieved", requestRate}, byPlan...),
			curve("Goodput", "Completed requests per second that kept the whole SLO, against all. Nothing without an SLO.",
				ofStages(raw("request_throughput", "requests/s"), `"good" / "duration_s" AS "good requests/s"`),
				axis{"requests/s", requestRate}, axis{"good requests/s", requestRate}, byPlan...),
		},
	)
}

// throughputAgainst draws a latency's p99 over output tokens per second.
func throughputAgainst(title, field string) Panel {
	return curve("Output throughput and "+title+" p99", "Each point is a stage.",
		ofStages(raw("output_token_throughput", "output tok/s"), raw(field+"_p99", title+" p99")),
		axis{"output tok/s", tokenRate}, axis{title + " p99", milliseconds}, byPlan...)
}

// compare shows results of several runs side by side.
func compare() Board {
	by := func(title, field string) Panel {
		return curve(title+" p99 by concurrency", "Stages of closed loops.",
			ofStages(raw("concurrency", "concurrency"), raw(field+"_p99", title+" p99")), axis{"concurrency", count}, axis{title + " p99", milliseconds}, byPlan...)
	}
	return board("spate-compare", "Spate: compare runs",
		"Choose several runs. All numbers are final and merged. They do not depend on the time range.",
		"now-7d", "",
		[]Panel{resultTable("Results", "Sort by load to see the runs' stages beside each other.", "spate_stage", ofAll,
			[]string{"run", "plan", "target", "workload", "load"}, result{"good", "good", count}, result{"complete", "complete", ""}).high(12)},
		[]Panel{throughputAgainst("TTFT", "ttft_ms"), throughputAgainst("TPOT", "tpot_ms")},
		[]Panel{by("TTFT", "ttft_ms"), by("TPOT", "tpot_ms"), by("E2E", "e2e_ms")},
		[]Panel{happened("What went wrong", "agent_lost|agent_joined|warning|error_burst|run_ended")},
	)
}
