package plans

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/spate-load/spate/plans/internal/jsonschema"
	"github.com/spate-load/spate/plans/rules"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// compiled is the shipped schema, compiled by another library.
var compiled = sync.OnceValues(func() (*validator.Schema, error) {
	document, err := validator.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		return nil, err
	}
	c := validator.NewCompiler()
	if err := c.AddResource("plan.schema.json", document); err != nil {
		return nil, err
	}
	return c.Compile("plan.schema.json")
})

// editorSays returns the error that an editor which uses the schema would show for a plan.
func editorSays(t interface{ Fatal(...any) }, text string) error {
	s, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return err
	}
	return s.Validate(tree)
}

// rightPlan is a plan without mistakes.
const rightPlan = `
name: right
slo: {ttft: 2s}
on_agent_loss: degrade
regions: {eu: 0.6, us: 0.4}
targets:
  - {name: t, endpoints: ["https://h"], model: m, api: completions, prompts: text, connection: {insecure_skip_verify: true}}
workloads:
  - random: {isl: 10, osl_lengths: {uniform: {min: 1, max: 5}}}
loads:
  - {rate_range: {from: 1, to: 4, step: 1}, arrival: gamma, burstiness: 0.5, duration: 1m30s}
  - {rate: [8], requests: 200}
  - {concurrency: [8], requests: 200, stagger: 2s}
  - {rate_phases: [{to: 5, duration: 10s}]}
  - {search: {rate: {from: 1, to: 9}, keep: {latencies: [{metric: ttft, percentile: 99, at_most: 2s}]}}, duration: 30s}
`

// typicalMistakes are changes of rightPlan that make it wrong.
var typicalMistakes = []string{
	"name: right -> nme: right",
	"name: right -> name: wrong name",
	"{ttft: 2s} -> {}",
	"ttft: 2s -> ttft: 2",
	"ttft: 2s -> ttft: 2 s",
	"degrade -> Degrade",
	"eu: 0.6 -> eu: 0",
	"eu: 0.6 -> eu: much",
	"eu: 0.6 -> eu: 1000001",
	"https://h -> h",
	"insecure_skip_verify: true -> insecure_skip_verify: 1",
	"stagger: 2s -> stagger: 2",
	"endpoints: [\"https://h\"], -> ",
	"api: completions -> api: completion",
	"isl: 10 -> isl: -1",
	"isl: 10 -> isl: 4k",
	"isl: 10, -> ",
	"isl: 10, -> isl: 10, isl_lengths: {empirical: {values: [1]}}, ",
	"min: 1 -> min: 0",
	"uniform: {min: 1, max: 5} -> uniform: {min: 1, max: 5}, normal: {mean: 1, stddev: 1}",
	"random: -> name: x, randm:",
	"step: 1 -> step: 1, factor: 2",
	", step: 1 -> ",
	"arrival: gamma, -> ",
	"arrival: gamma -> arrival: Gamma",
	"rate_range: -> concurrency: [1], rate_range:",
	"- {rate_range: {from: 1, to: 4, step: 1}, -> - {",
	"from: 1, to: 4 -> from: 0, to: 4",
	"to: 5, duration: 10s -> to: 5",
	"to: 5, -> ",
	"metric: ttft -> metric: latency",
	", at_most: 2s -> ",
	"{latencies: [{metric: ttft, percentile: 99, at_most: 2s}]} -> {}",
	"search: {rate: {from: 1, to: 9}, -> search: {",
	"[{to: 5, -> [[], {to: 5, ",
}

func TestSchemaRefusesTypicalMistakes(t *testing.T) {
	load(t, rightPlan)
	for _, change := range typicalMistakes {
		from, to, _ := strings.Cut(change, " -> ")
		if !strings.Contains(rightPlan, from) {
			t.Fatalf("%s: not in the plan", from)
		}
		wrong := strings.Replace(rightPlan, from, to, 1)
		if err := editorSays(t, wrong); err == nil {
			t.Errorf("%s: the schema lets it pass", change)
		}
		if _, err := Load("p", []byte(wrong), Options{}); err == nil {
			t.Errorf("%s: Load lets it pass", change)
		}
	}
}

// Pods of a cluster are found when the plan is run: until then it needs no endpoints.
func TestSchemaAcceptsTargetsOfAKubernetesService(t *testing.T) {
	const target = "name: found\ntargets: [{name: t, model: m, kubernetes: {service: vllm}}]\n" +
		"workloads: [{random: {isl: 10, osl: 5}}]\nloads: [{rate: [1], duration: 1m}]\n"
	if err := editorSays(t, target); err != nil {
		t.Error(err)
	}
	if _, err := Load("p", []byte(target), Options{Discover: true}); err != nil {
		t.Error(err)
	}
	if err := editorSays(t, strings.Replace(target, ", kubernetes: {service: vllm}", "", 1)); err == nil {
		t.Error("a target without endpoints passes")
	}
}

// TestSchemaIsCurrent compares the shipped schema with the descriptors, except for the comments, which compiled Go does
// not have. `make check-generated` checks the comments.
func TestSchemaIsCurrent(t *testing.T) {
	current, err := jsonschema.Generate((&spatev1.Plan{}).ProtoReflect().Descriptor(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(undescribed(t, current), undescribed(t, Schema())); diff != "" {
		t.Errorf("plans/plan.schema.json is not current: make generate (-current +shipped):\n%s", diff)
	}
}

// undescribed reads a schema without its descriptions. A property named description is an object and stays.
func undescribed(t *testing.T, data []byte) any {
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, text := v["description"].(string); text {
				delete(v, "description")
			}
			for _, inner := range v {
				strip(inner)
			}
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	strip(tree)
	return tree
}

// TestSchemaDescribesEveryField checks the texts that an editor shows.
func TestSchemaDescribesEveryField(t *testing.T) {
	var tree struct {
		Defs map[string]struct {
			Description string                                  `json:"description"`
			Properties  map[string]struct{ Description string } `json:"properties"`
			AllOf       []struct {
				OneOf []struct{ Required []string } `json:"oneOf"`
			} `json:"allOf"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &tree); err != nil {
		t.Fatal(err)
	}
	for name, message := range tree.Defs {
		if message.Description == "" {
			t.Errorf("%s has no description", name)
		}
		for field, p := range message.Properties {
			if p.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
	var kinds []string
	for _, choice := range tree.Defs["Load"].AllOf[0].OneOf {
		kinds = append(kinds, choice.Required...)
	}
	if !slices.Equal(kinds, rules.LoadKinds) {
		t.Errorf("the schema knows the loads %v, the rules %v", kinds, rules.LoadKinds)
	}
	for _, internal := range []string{"Stage", "LoadPoint", "Dataset", "Lexicon", "Probe"} {
		if _, there := tree.Defs[internal]; there {
			t.Errorf("%s is nothing that a person writes", internal)
		}
	}
}

// TestDurationPattern compares the pattern with what Load accepts.
func TestDurationPattern(t *testing.T) {
	pattern := regexp.MustCompile(regexp.MustCompile(`"pattern": "(\^\[-\+\].*)"`).FindStringSubmatch(strings.ReplaceAll(string(Schema()), `\\`, `\`))[1])
	for text, want := range map[string]bool{
		"1s": true, "1.5s": true, ".5s": true, "1h30m": true, "2us": true, "2µs": true, "+3ms": true,
		"": false, "1": false, "s": false, "1 s": false, "1d": false, "1s ": false, "1.s": true, ".s": false,
		"1e3s": false,
	} {
		if got := pattern.MatchString(text); got != want {
			t.Errorf("the pattern takes %q: %v", text, got)
		}
		_, err := Load("p", []byte("name: a\ntargets: [{name: t, simulator: {}}]\nworkloads: [{random: {isl: 1, osl: 1}}]\nloads: [{rate: [1], duration: '"+text+"'}]"), Options{})
		if (err == nil) != want {
			t.Errorf("Load of %q: %v", text, err)
		}
	}
}
