// Package foreign knows the words of other load generators: vLLM's benchmark, GuideLLM, AIPerf and k6. One table says
// what each is in Spate; flags, plans and translations use it.
package foreign

import (
	"maps"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/docs"
)

// setting is a setting of Spate, and what others call it.
type setting struct {
	// names are those of flags, with dashes.
	names string
	// args are arguments of `spate run`. %s is the value; without it, the setting is a switch. Empty: nothing is needed.
	args string
	// field is the place in a plan. Empty: it has none.
	field string
}

// settings is what has an equivalent.
var settings = []setting{
	{"base-url url server-url", "--target=%s", "targets[].endpoints"},
	{"host", "--target=http://%s:PORT", "targets[].endpoints"},
	{"port", "--target=http://HOST:%s", "targets[].endpoints"},
	{"served-model-name model-name model-names", "--model=%s", "targets[].model"},
	{"backend backend-type endpoint-type endpoint custom-endpoint request-format request-type", "--api=%s", "targets[].api"},
	{"request-rate qps rps", "--rate=%s", "loads[].rate"},
	{"max-concurrency vus users num-users streams clients", "--concurrency=%s", "loads[].concurrency"},
	{"num-prompts num-requests request-count max-requests max-num-requests iterations", "--requests=%s", "loads[].requests"},
	{"max-seconds max-duration benchmark-duration run-time", "--duration=%ss", "loads[].duration"},
	{"input-len random-input-len prompt-tokens input-tokens synthetic-input-tokens-mean prompt-input-tokens-mean", "--isl=%s",
		"workloads[].random.isl"},
	{"output-len random-output-len output-tokens output-tokens-mean max-tokens max-new-tokens", "--osl=%s",
		"workloads[].random.osl"},
	{"random-seed", "--seed=%s", "seed"},
	{"num-warmups warmup-request-count", "--warmup-requests=%s", "loads[].warmup"},
	{"request-rate-mode arrival-pattern", "--arrival=%s", "loads[].arrival"},
	{"concurrency-ramp-duration", "--stagger=%ss", "loads[].stagger"},
	{"streaming", "--stream=true", "targets[].stream"},
	{"no-stream", "--stream=false", "targets[].stream"},
	{"headers", "--header=%s", "targets[].headers"},
	{"extra-inputs extra-body", "--body=%s", "targets[].body"},
	{"temperature", "--body=temperature=%s", "targets[].body"},
	{"top-p", "--body=top_p=%s", "targets[].body"},
	{"top-k", "--body=top_k=%s", "targets[].body"},
	{"ignore-eos", "--set=targets[0].exact_output=always", "targets[].exact_output"},
	{"random-range-ratio", "--set=workloads[0].random.range_ratio=%s", "workloads[].random.range_ratio"},
	{"burstiness", "--set=loads[0].arrival=gamma --set=loads[0].burstiness=%s", "loads[].burstiness"},
	{"ramp ramp-up stages ramp-up-strategy ramp-up-start-rps ramp-up-end-rps rampup", "", "loads[].rate_phases"},
	{"goodput slo slos", "", "slo"},
	{"dataset-path dataset-name input-file data custom-dataset-type public-dataset", "", "workloads"},
	{"prefix-len random-prefix-len prefix-prompt-length", "", "workloads[].random.prefix"},
	{"lora-modules", "", "workloads[].mix"},
}

// byName has the settings by the names that others give them.
var byName = func() map[string]setting {
	all := map[string]setting{}
	for _, s := range settings {
		for name := range strings.FieldsSeq(s.names) {
			all[name] = s
		}
	}
	return all
}()

// dashed returns a name as flags are written.
func dashed(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

// Alias returns the flag of `spate run` that takes the same values as a flag of another load generator, or "".
func Alias(name string) string {
	flag, value, _ := strings.Cut(strings.TrimPrefix(byName[dashed(name)].args, "--"), "=")
	if value != "%s" || flag == "api" || flag == "body" || flag == "header" {
		return ""
	}
	return flag
}

// Meant returns what `spate run` is given for a flag of another load generator, or the place in a plan, or "".
func Meant(name string) string {
	s := byName[dashed(name)]
	if s.args == "" && s.field != "" {
		return s.field + " in a plan (" + docs.URL("from-other-tools.md", "") + ")"
	}
	return strings.NewReplacer("%ss", "TIME", "%s", "VALUE").Replace(s.args)
}

// Names returns the names of flags that others have.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }

// Field returns the place in a plan of what others call name, or "".
func Field(name string) string { return byName[dashed(name)].field }
