package main

import "fmt"

// told returns panels of what servers report about themselves. They are empty if a plan has no server_metrics.
func told() []Panel {
	tells := func(title, description, unit, metrics, field string) Panel {
		return lines(title, description+" Of plans with server_metrics: {}.", unit, query{
			fmt.Sprintf(`SELECT last(%q) AS %q FROM "spate_server" WHERE "metric" =~ /%s/ AND %s AND $timeFilter GROUP BY time($__interval), "metric", "source", "labels" fill(null)`,
				field, field, metrics, chosen), "$tag_metric · $tag_source $tag_labels",
		}).legendRight()
	}
	return []Panel{
		tells("Servers: requests running and waiting", "As each engine reports: a waiting request has not started prefill.", count,
			`(requests_(running|waiting)|_reqs|tgi_queue_size|tgi_batch_current_size)$`, "value"),
		tells("Servers: tokens per second", "Of prompts and of outputs, as each engine counts them.", tokenRate,
			`(prompt|generation)_tokens(_total)?$`, "per_second"),
	}
}

// endpoints shows which of a target's endpoints is slow, or fails.
func endpoints() (rows [][]Panel) {
	count := func(title, unit, field string) Panel {
		return lines(title, "", unit, query{series("spate_window", ofEndpoints, byEndpoint, rate(field, field)),
			of("endpoint")}).busiest()
	}
	p99 := func(title, field string) Panel {
		return lines(title+" p99 by endpoint", "Solid: of single windows of a second. Dashed: of the stage to date.",
			milliseconds,
			query{series("spate_window", ofEndpoints, byEndpoint, last(field+"_p99", "p99")), ofEach("endpoint")},
			query{series("spate_to_date", ofEndpoints, byEndpoint, last(field+"_p99", "p99 to date")),
				ofEach("endpoint")}).busiest().logarithmic()
	}
	return [][]Panel{
		{
			count("Requests per second by endpoint", requestRate, "completed"),
			count("Frames per second by endpoint", perSecondOf, "frames"),
			count("Failed per second by endpoint", perSecondOf, "failed"),
		},
		{p99("TTFT", "ttft_ms"), p99("TPOT", "tpot_ms")},
	}
}

// byEndpoint are the tags that separate lines.
var byEndpoint = []string{"endpoint", "run"}
