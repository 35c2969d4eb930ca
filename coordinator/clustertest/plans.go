package clustertest

import (
	"fmt"
	"strings"
)

// Plan has one target and two concurrencies: two stages.
const Plan = start + "    api_key: env:KEY\n" + rest

// Keyless is Plan without its secret.
const Keyless = start + rest

const start = `name: sweep
seed: 7
targets:
  - name: east
    endpoints: ["http://east.example:8000"]
    model: m
`

const rest = `workloads:
  - random: {isl: 10, osl: 5}
loads:
  - concurrency: [1, 2]
    requests: 4
`

// SecretKey is the value of the key that plans with a secret name.
const SecretKey = "do-not-print-me"

// PlanOf returns a plan with one target, one workload and a load.
func PlanOf(load string) string {
	return "name: p\ntargets:\n  - name: east\n    endpoints: [\"http://east.example:8000\"]\n    model: m\n" +
		"workloads:\n  - random: {isl: 10, osl: 5}\nloads:\n  - " + load + "\n"
}

// PlanOn returns a plan that takes some agents and loads a server, in one stage.
func PlanOn(agents int, server string) string {
	text := strings.Replace(PlanOf(`{concurrency: [1], requests: 4}`), "east.example:8000", server, 1)
	return text + fmt.Sprintf("agents: {count: %d}\n", agents)
}
