package main

import "fmt"

// byRegion and byAgent are the tags that separate lines.
var (
	byRegion = []string{"region", "run"}
	byAgent  = []string{"agent", "run"}
)

// regions shows where load comes from, and what it measures there.
func regions() Board {
	at := func(title, description, field string) Panel {
		return lines(title, description, milliseconds,
			query{series("spate_window", ofRegions, byRegion, last(field+"_p99", "p99")), ofEach("region")},
			query{series("spate_to_date", ofRegions, byRegion, last(field+"_p99", "p99 to date")),
				ofEach("region")}).legendRight().logarithmic()
	}
	tags, between := []string{"stage", "region", "target", "workload", "load"}, endpoints()
	return board("spate-regions", "Spate: regions and endpoints",
		"Load and latencies by the region of agents, and the path from there to the endpoints.",
		"now-15m", "5s",
		[]Panel{
			lines("Requests per second by region", "Completed in each second.", requestRate,
				query{series("spate_window", ofRegions, byRegion, rate("completed", "completed")),
					of("region")}).legendList(),
			lines("Frames per second by region", "Arrived in each second.", perSecondOf,
				query{series("spate_window", ofRegions, byRegion, rate("frames", "frames")),
					of("region")}).legendList(),
			lines("Failed per second by region", "", perSecondOf,
				query{series("spate_window", ofRegions, byRegion, rate("failed", "failed")),
					of("region")}).legendList(),
		},
		[]Panel{at("TTFT p99 by region", "", "ttft_ms"), at("TPOT p99 by region", "", "tpot_ms")},
		[]Panel{
			at("Send delay p99 by region", "Start - scheduled: a region whose agents are late.", "send_delay_ms"),
			lines("Round trip to the endpoints by region",
				"As the kernel measured it when connections were opened, for the stage to date. Empty if no connection was opened.", milliseconds,
				query{series("spate_to_date", ofRegions, byRegion, last("rtt_ms_p50", "RTT p50 to date"),
					last("rtt_ms_max", "RTT max to date")), ofEach("region")},
				query{series("spate_to_date", ofRegions, byRegion, last("connect_ms_p99", "connect p99 to date")),
					ofEach("region")}).legendRight(),
		},
		between[0], between[1], told(),
		[]Panel{resultTable("Results by region", "Rates add up to those of the stage.", "spate_stage", ofRegions, tags,
			result{"RTT p50", "rtt_ms_p50", milliseconds},
			result{"connect p99", "connect_ms_p99", milliseconds}).high(12)},
	)
}

// tally shows the rate of a counter by agent.
func tally(title, description, field, unit string) Panel {
	return lines(title, description, unit, query{series("spate_window", ofAgents, byAgent, rate(field, field)),
		of("agent")}).busiest()
}

// p99ByAgent shows the p99 of a metric by agent.
func p99ByAgent(title, field string) Panel {
	return lines(title+" p99 by agent",
		"By window of a second. An agent that differs from the others has a problem of its own.", milliseconds,
		query{series("spate_window", ofAgents, byAgent, last(field+"_p99", "p99")), of("agent")}).busiest().logarithmic()
}

// heartbeat shows a value of the agents' heartbeats.
func heartbeat(title, description, unit string, selection string) Panel {
	return lines(title, description, unit, query{beats(selection), of("agent")}).busiest()
}

// agents shows whether the agents keep up.
func agents() Board {
	return board("spate-agents", "Spate: agents",
		"Whether agents are connected, take their part of the load, and keep up.",
		"now-15m", "5s",
		[]Panel{
			lines("Agents heard of", "Connected agents that sent a message in the interval, whether or not they take part in a stage.", count,
				query{present(), of("region")}).every("5s"),
			happened("Lost, joined and warnings",
				ofKinds("agent_lost|agent_joined|warning|error_burst")).high(8).without("run", "stage", "region"),
		},
		[]Panel{
			tally("Requests started per second by agent", "", "started", requestRate),
			tally("Frames per second by agent", "", "frames", perSecondOf),
			tally("Failed per second by agent", "", "failed", perSecondOf),
		},
		[]Panel{p99ByAgent("TTFT", "ttft_ms"), p99ByAgent("TPOT", "tpot_ms")},
		[]Panel{
			heartbeat("CPU cores used", "Used by the agent's process. Close to the machine's number of cores, timing suffers.", count,
				last("cpu_cores", "cores")),
			heartbeat("Requests in flight", "", count, last("in_flight", "in flight")),
			heartbeat("Snapshots that wait",
				"Sent and not yet accepted by the coordinator: they grow while it cannot be reached.", count,
				last("unacked_snapshots", "waiting")),
		},
		[]Panel{
			lines("Clock", "Offset from the coordinator's clock, and its uncertainty.", milliseconds,
				query{beats(last("clock_offset_ms", "offset"), last("clock_uncertainty_ms", "uncertainty")),
					ofEach("agent")}).busiest().signed(),
			heartbeat("Silent for", "Time since the last message from an agent. At 3.5 s the agent is lost.", seconds,
				last("silent_s", "silent")),
			heartbeat("Start error", "Start of an agent's load minus the armed start, once per stage.", milliseconds,
				last("start_error_ms", "start error")).signed(),
		},
		[]Panel{
			tally("Connections opened per second by agent",
				"Many, under a load that keeps its connections, mean that the server closes them.", "connections",
				perSecondOf),
			tally("Reads with several frames per second by agent",
				"Frames that were read together: the server sent them together, or they were read late.", "coalesced_reads", perSecondOf),
			tally("Frames without a kernel stamp per second by agent", "They are timed by the program.",
				"unstamped_frames", perSecondOf),
		},
		[]Panel{
			lines("Send delay p99", "Of all agents, and by region.", milliseconds,
				query{series("spate_window", ofAll, byRun, last("send_delay_ms_p99", "all")), named},
				query{series("spate_window", ofRegions, byRegion, last("send_delay_ms_p99", "p99")),
					of("region")}).legendRight().logarithmic(),
			lines("Receive lag p99", "Of all agents.", milliseconds,
				query{series("spate_window", ofAll, byRun, last("receive_lag_ms_p99", "all")), named}).legendRight().logarithmic(),
		},
		[]Panel{agentCounts().high(12), agentLatencies().high(12)},
	)
}

// agentTags say which agent's part of which stage it is.
var agentTags = []string{"stage", "load", "agent", "region", "run"}

// agentCounts shows the sums of each agent's counts.
func agentCounts() Panel {
	total := func(field, as string) string { return fmt.Sprintf(`sum(%q) AS %q`, field, as) }
	return table("Counts by agent", "All windows of each stage so far.", []column{
		{"started", count}, {"completed", count}, {"failed", count}, {"frames", count}, {"connections", count},
		{"reads with several frames", count},
		{"frames without a kernel stamp", count},
	},
		latest("spate_window", ofAgents, agentTags, total("started", "started"), total("completed", "completed"),
			total("failed", "failed"),
			total("frames", "frames"), total("connections", "connections"),
			total("coalesced_reads", "reads with several frames"),
			total("unstamped_frames", "frames without a kernel stamp"))).byStage(agentTags)
}

// agentLatencies shows the latencies of each agent so far.
func agentLatencies() Panel {
	order := []string{"TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "E2E p50", "E2E p99"}
	numbers := []column{{"completed", count}}
	for _, name := range order {
		numbers = append(numbers, column{name, milliseconds})
	}
	return table("Latencies by agent to date",
		"Merged from the start of each stage to the last window that all agents had delivered, for the requests completed by then.",
		numbers, latest("spate_to_date", ofAgents, agentTags, last("completed", "completed"),
			last("ttft_ms_p50", order[0]), last("ttft_ms_p99", order[1]), last("tpot_ms_p50", order[2]),
			last("tpot_ms_p99", order[3]),
			last("e2e_ms_p50", order[4]), last("e2e_ms_p99", order[5]))).byStage(agentTags)
}
