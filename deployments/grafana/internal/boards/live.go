package main

// live shows a run in progress.
func live() Board {
	window, toDate := "spate_window", "spate_to_date"
	return board("spate-live", "Spate: live run",
		"A run in progress: requested and achieved load, latencies by window of a second and merged to date, errors, and how well the client keeps up.",
		"now-15m", "5s",
		now(),
		[]Panel{
			lines("Requests per second",
				"Asked: the rate of an open loop. Started and completed: counted in each second.", requestRate,
				query{series(window, ofAll, byRun, last("rate", "asked"), rate("started", "started"),
					rate("completed", "completed"), rate("failed", "failed")), named}).legendList(),
			lines("Streams in flight",
				"Asked: the concurrency of a closed loop. The maximum in flight in a second; with several agents, the sum of their maxima.", count,
				query{series(window, ofAll, byRun, last("concurrency", "asked"),
					highest("peak_in_flight", "in flight")), named}).legendList(),
			lines("Tokens and frames per second",
				"What arrived in each second, also for failed requests. Tokens are shown only if the server reports those of each frame.", tokenRate,
				query{series(window, ofAll, byRun, rate("tokens_arrived", "tokens"), rate("frames", "frames"),
					rate("unmeasured_frames", "frames of warm-up and cool-down")), named}).legendList(),
		},
		[]Panel{latency("TTFT", "ttft_ms"), latency("TPOT", "tpot_ms")},
		[]Panel{latency("ITL", "itl_ms"), latency("E2E", "e2e_ms")},
		[]Panel{
			bars("Errors by class", "Failed requests in each interval, and in total.", count,
				query{series(window, ofAll, byRun, `sum(/^errors_/)`), named}).renamed("^sum_errors_(.*)$", "$1"),
			lines("Good share to date",
				"Requests that met the whole SLO, among those completed and failed. Empty without an SLO.", share,
				query{series(toDate, ofAll, byRun,
					`last("good") / (last("completed") + last("failed")) AS "good to date"`), named}).legendRight(),
		},
		[]Panel{
			lines("Send delay", "Start - scheduled. If it grows, the client is late, not the server.",
				milliseconds,
				query{series(window, ofAll, byRun, last("send_delay_ms_p50", "p50"), last("send_delay_ms_p99", "p99"),
					highest("send_delay_ms_max", "max")), named}).graded().logarithmic().legendRight(),
			lines("Receive lag", "From the kernel's receipt of token frames to the program's read: a busy client is visible here first.", milliseconds,
				query{series(window, ofAll, byRun, last("receive_lag_ms_p50", "p50"), last("receive_lag_ms_p99", "p99"),
					highest("receive_lag_ms_max", "max")), named}).graded().logarithmic().legendRight(),
		},
		told(),
		[]Panel{soFar().high(12)},
		[]Panel{doubts().without("Time", "run")},
		[]Panel{happened("Events",
			ofKinds("run_began|run_ended|stage_began|stage_ended|agent_lost|agent_joined|warning|error_burst")).without("run")},
	)
}

// now shows the state of the run in figures, above everything else.
func now() []Panel {
	toDate := func(selections ...string) query {
		return query{series("spate_to_date", ofAll, byRun, selections...), named}
	}
	figure := func(title, description, unit, selection string) Panel {
		return stat(title, description, unit, "", query{series("spate_window", ofAll, byRun, selection),
			named}).worded().drawn()
	}
	quantiles := func(title, field string) Panel {
		return stat(title+" to date", "Of the latest stage, merged.", milliseconds, "",
			toDate(last(field+"_p50", "p50"), last(field+"_p99", "p99"))).wide(4)
	}
	return []Panel{
		stat("Worst verdict so far",
			"Whether the measurement of the worst stage can be trusted. The table of stages says which stage it is; at its end, the table below that says why.", "", "",
			query{text: latest("spate_to_date", ofAll, eachStage,
				last("verdict", "verdict"))}).worst().judged().wide(3),
		stat("Latest stage", "", "", "/^load$/",
			query{text: `SELECT "text", "load" FROM "spate_event" WHERE "kind" = 'stage_began' AND ` + chosen +
				` ORDER BY time DESC LIMIT 1`}).worded().wide(4),
		figure("Requests/s", "Completed in the last second.", requestRate, rate("completed", "completed")).wide(3),
		figure("Tokens/s", "Arrived in the last second. Empty if the server does not report the tokens of each frame.", tokenRate, rate("tokens_arrived", "tokens")).wide(3),
		quantiles("TTFT", "ttft_ms"),
		quantiles("TPOT", "tpot_ms"),
		stat("Failed to date", "Share of the latest stage's requests that ended.", share, "",
			toDate(`last("failed") / (last("completed") + last("failed")) AS "failed"`)).
			worded().limited(0.01).wide(3),
	}
}

// latency shows a latency's percentiles by window and to date.
func latency(title, field string) Panel {
	return lines(title, "Solid: percentiles of single windows of a second; at longer intervals, of the last window in each. "+
		"Dashed: percentiles of the stage to date, from merged histograms.", milliseconds,
		query{series("spate_window", ofAll, byRun, last(field+"_p50", "p50"), last(field+"_p90", "p90"),
			last(field+"_p99", "p99")), named},
		query{series("spate_to_date", ofAll, byRun, last(field+"_p50", "p50 to date"),
			last(field+"_p90", "p90 to date"), last(field+"_p99", "p99 to date")), named},
	).graded().logarithmic().legendRight().high(9)
}

// eachStage are the tags that distinguish stages.
var eachStage = []string{"stage", "target", "workload", "load", "run"}

// soFar shows the numbers of each stage so far.
func soFar() Panel {
	numbers := []column{{"started", count}, {"completed", count}, {"failed", count}, {"good", count}}
	selections := []string{last("verdict", "verdict")}
	for _, c := range numbers {
		selections = append(selections, last(c.name, c.name))
	}
	for _, m := range []struct{ title, field string }{{"TTFT", "ttft_ms"}, {"TPOT", "tpot_ms"}, {"ITL", "itl_ms"},
		{"E2E", "e2e_ms"}, {"send delay", "send_delay_ms"}} {
		for _, p := range []string{"p50", "p99"} {
			name := m.title + " " + p
			selections, numbers = append(selections, last(m.field+"_"+p, name)),
				append(numbers, column{name, milliseconds})
		}
	}
	return table("Stages so far", "Merged from the start of each stage to its last window.", numbers,
		latest("spate_to_date", ofAll, eachStage, selections...)).byStage(eachStage)
}

// doubts lists the checks that ended stages did not pass, with remedies.
func doubts() Panel {
	p := table("Why stages are not VALID", "The checks that ended stages did not pass, and what to do. Empty if all are VALID.",
		nil, rows("spate_event", ofKinds("doubt"), raws([]string{"stage", "load", "check", "text", "run"})...))
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides,
		override("byName", "check", Property{ID: "custom.width", Value: 130}))
	p.FieldConfig.Defaults.NoData = ""
	return p.high(7)
}

// ofKinds limits events to kinds.
func ofKinds(kinds string) string { return `"kind" =~ /^(` + kinds + `)$/` }

// irregular excludes the regular ends of runs and stages. Other ends have their reason as text.
const irregular = `"text" !~ /^(plan|stage) .* has ended$/`

// happened lists events.
func happened(title, where string) Panel {
	p := table(title, "", nil,
		`SELECT "kind", "agent", "region", "stage", "load", "text", "run" FROM "spate_event" WHERE `+where+
			` AND "run" =~ /^$run$/ ORDER BY time DESC LIMIT 1000`)
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides,
		override("byName", "Time", Property{ID: "custom.width", Value: 165}),
		override("byName", "kind", Property{ID: "custom.width", Value: 105}))
	p.FieldConfig.Defaults.NoData = ""
	return p
}
