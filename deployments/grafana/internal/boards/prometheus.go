package main

import "fmt"

// Prometheus returns the dashboards of what Prometheus reads from a coordinator's /metrics.
func Prometheus() []File { return []File{{"runs.json", runs()}} }

// runs shows a run, in progress or ended.
func runs() Board {
	b := board("spate-prometheus", "Spate: run (Prometheus)",
		"A run in progress or ended, from what Prometheus reads from a coordinator: load, latencies by interval and to date, errors, regions, endpoints, and the result of each stage.",
		"now-15m", "5s",
		promNow(),
		[]Panel{
			lines("Requests per second", "Asked: the rate of an open loop.", requestRate).asked(
				expr{fmt.Sprintf("max(spate_to_date_rate{%s} and on (run, stage) %s)", whole, inProgress), "asked"},
				expr{perSecondTotal("started"), "started"}, expr{perSecondTotal("completed"), "completed"},
				expr{perSecondTotal("failed"), "failed"}).legendList(),
			lines("Streams in flight", "Asked: the concurrency of a closed loop. In flight: measured requests that have started and not ended.", count).asked(
				expr{fmt.Sprintf("max(spate_to_date_concurrency{%s} and on (run, stage) %s)", whole, inProgress), "asked"},
				expr{fmt.Sprintf("sum(%s) - sum(%s) - sum(%s) - sum(%s)", counter("started", whole), counter("completed", whole),
					counter("failed", whole), counter("cancelled", whole)), "in flight"}).legendList(),
			lines("Tokens and frames per second", "What arrived, also for failed requests. Tokens are shown only if the server reports those of each frame.", tokenRate).asked(
				expr{perSecondTotal("tokens_arrived"), "tokens"}, expr{perSecondTotal("frames"), "frames"},
				expr{perSecondTotal("unmeasured_frames"), "frames of warm-up and cool-down"}).legendList(),
		},
		[]Panel{promLatency("TTFT", "ttft_ms"), promLatency("TPOT", "tpot_ms")},
		[]Panel{promLatency("ITL", "itl_ms"), promLatency("E2E", "e2e_ms")},
		[]Panel{
			lines("Errors per second by class", "Failed requests.", perSecondOf).asked(
				expr{perSecondBy("class", fmt.Sprintf("spate_to_date_errors_total{%s}", whole)), "{{class}}"}).legendRight(),
			lines("Good share to date", "Requests that met the whole SLO, among those completed and failed. Empty without an SLO.", share).asked(
				expr{fmt.Sprintf("sum(%s and on (run, stage) %s) / sum(%s + %s and on (run, stage) %s)", counter("good", whole),
					inProgress, counter("completed", whole), counter("failed", whole), inProgress), "good to date"}).legendRight(),
		},
		[]Panel{
			promClient("Send delay", "Start - scheduled. If it grows, the client is late, not the server.", "send_delay_ms"),
			promClient("Receive lag", "From the kernel's receipt of token frames to the program's read: a busy client is visible here first.", "receive_lag_ms"),
		},
		promParts("region", regional), promParts("endpoint", endpoint),
		[]Panel{promResults()},
		[]Panel{promCurve("TTFT", "ttft_ms"), promCurve("TPOT", "tpot_ms"), promCurve("E2E", "e2e_ms")},
	)
	b.Templating, b.Annotations = promVariables(), Annotations{List: []Annotation{}}
	return b
}

// promNow shows the state of the run in figures.
func promNow() []Panel {
	figure := func(title, description, unit string, e string) Panel {
		return stat(title, description, unit, "", query{alias: named}).asked(expr{e, title}).worded()
	}
	latency := func(title, metric string) Panel {
		return stat(title+" to date", "Of the latest stage, merged.", seconds, "", query{alias: named}).
			asked(expr{toDate(metric, "0.5"), "p50"}, expr{toDate(metric, "0.99"), "p99"}).wide(4)
	}
	ended := fmt.Sprintf("%s and on (run, stage) %s", counter("completed", whole), inProgress)
	failed := fmt.Sprintf("%s and on (run, stage) %s", counter("failed", whole), inProgress)
	return []Panel{
		stat("Worst verdict so far", "Whether the measurement of the worst stage can be trusted. The table of stages says which stage it is, report.md why, and what to do.",
			"", "", query{}).askedNow(expr{"max(" + judgement() + ")", "verdict"}).judged().wide(4),
		stat("Stages ended", "", count, "", query{}).
			askedNow(expr{"count(" + lastOf(gauge("complete")) + ")", "stages"}).worded().wide(3),
		figure("Requests/s", "Completed.", requestRate, perSecondTotal("completed")).drawn().wide(3),
		figure("Frames/s", "Arrived.", perSecondOf, perSecondTotal("frames")).drawn().wide(3),
		latency("TTFT", "ttft_ms"), latency("TPOT", "tpot_ms"),
		figure("Failed to date", "Share of the latest stage's requests that ended.", share,
			fmt.Sprintf("sum(%s) / (sum(%s) + sum(%s))", failed, ended, failed)).limited(0.01).wide(3),
	}
}

// promLatency shows a latency's quantiles by interval and to date.
func promLatency(title, metric string) Panel {
	return lines(title, "Solid: quantiles of what was measured in the last interval. Dashed: quantiles of the stage to date. All from merged histograms.",
		seconds).asked(
		expr{recent(metric, "0.5", "run", whole), "p50"}, expr{recent(metric, "0.9", "run", whole), "p90"},
		expr{recent(metric, "0.99", "run", whole), "p99"}, expr{toDate(metric, "0.5"), "p50 to date"},
		expr{toDate(metric, "0.9"), "p90 to date"}, expr{toDate(metric, "0.99"), "p99 to date"},
	).graded().legendRight().logarithmic().high(9)
}

// promClient shows a time of the client.
func promClient(title, description, metric string) Panel {
	return lines(title, description, seconds).asked(expr{recent(metric, "0.5", "run", whole), "p50"},
		expr{recent(metric, "0.99", "run", whole), "p99"}).graded().legendRight().logarithmic()
}

// promParts shows the parts of a stage, by the label that tells them apart.
func promParts(label, scope string) []Panel {
	legend := "{{" + label + "}}"
	return []Panel{
		lines("Requests per second by "+label, "Completed.", requestRate).
			asked(expr{perSecondBy(label, counter("completed", scope)), legend}).busiest(),
		lines("Failed per second by "+label, "", perSecondOf).
			asked(expr{perSecondBy(label, counter("failed", scope)), legend}).busiest(),
		lines("TTFT p99 by "+label, "", seconds).asked(expr{recent("ttft_ms", "0.99", label, scope), legend}).
			busiest().logarithmic(),
		lines("TPOT p99 by "+label, "", seconds).asked(expr{recent("tpot_ms", "0.99", label, scope), legend}).
			busiest().logarithmic(),
	}
}

// promResults is the table of stages: their results, or what is known so far.
func promResults() Panel {
	all := []struct {
		column
		text string
	}{
		{column{"verdict", ""}, judgement()},
		{column{"completed", count}, lastOf(counter("completed", whole))},
		{column{"failed", count}, lastOf(counter("failed", whole))},
		{column{"requests/s", requestRate}, lastOf(gauge("request_throughput"))},
		{column{"output tok/s", tokenRate}, lastOf(gauge("output_token_throughput"))},
		{column{"TTFT p50", milliseconds}, final("ttft_ms", "0.5")},
		{column{"TTFT p99", milliseconds}, final("ttft_ms", "0.99")},
		{column{"TPOT p50", milliseconds}, final("tpot_ms", "0.5")},
		{column{"TPOT p99", milliseconds}, final("tpot_ms", "0.99")},
		{column{"ITL p99", milliseconds}, final("itl_ms", "0.99")},
		{column{"E2E p99", milliseconds}, final("e2e_ms", "0.99")},
		{column{"send delay p99", milliseconds}, final("send_delay_ms", "0.99")},
	}
	var columns []column
	var asked []expr
	for _, c := range all {
		if c.name != "verdict" {
			columns = append(columns, c.column)
		}
		asked = append(asked, expr{c.text, c.name})
	}
	p := table("Stages", "A row for each stage in the time range. Throughputs are known when a stage has ended.", columns, "")
	p = p.askedNow(asked...).merged().high(12)
	p.Options = map[string]any{"showHeader": true, "cellHeight": "sm",
		"sortBy": []any{map[string]any{"displayName": "stage", "desc": false}}}
	return p
}

// promCurve draws a latency's p99 over output tokens per second, a point for each stage that has ended.
func promCurve(title, metric string) Panel {
	x, y := axis{"Value #A", "", tokenRate}, axis{"Value #B", "", milliseconds}
	p := curve("Output throughput and "+title+" p99", "Each point is a stage.", x, y, byPlan, loops{}).askedNow(
		expr{lastOf(gauge("output_token_throughput")), "output tok/s"}, expr{final(metric, "0.99"), title + " p99"})
	p.FieldConfig.Defaults.Custom["show"] = "points" // the order of rows is not that of loads
	p.Transformations = append([]Transformation{{ID: "merge", Options: map[string]any{}}}, p.Transformations...)
	p.FieldConfig.Overrides = []Override{
		axis{"output tok/s", "", tokenRate}.override(x.column, ""),
		axis{title + " p99", "", milliseconds}.override(y.column, labels(byPlan)),
	}
	return p
}

// promVariables are the data source, and what is chosen of it. The latest run of each plan is before the others.
func promVariables() Templating {
	of := func(label string) string {
		return fmt.Sprintf(`label_values(%s, %s)`, counter("started", `run="$run"`), label)
	}
	all := []Variable{
		sourceVariable(anyPrometheus.Type),
		{Name: "run", Label: "Run", Type: "query", Datasource: &anyPrometheus, Refresh: 2, Sort: backwards,
			Query: fmt.Sprintf(`label_values(%s, run)`, counter("started", `scope="all"`))},
		choice("target", "Target", of("target"), alphabetical), choice("stage", "Stage", of("stage"), numerical),
		choice("region", "Region", of("region"), alphabetical),
	}
	for i := range all[2:] {
		all[2+i].Datasource = &anyPrometheus
	}
	return Templating{List: all}
}
