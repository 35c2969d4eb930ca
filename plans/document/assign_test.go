package document

import (
	"fmt"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

const settable = `# What it is for.
name: settable # its name

seed: 1
targets:
  # The first one.
  - name: a
    endpoints: ["http://placeholder:1"] # replace me
    model: m
  - {name: a.b, simulator: {}}
workloads:
  - random: {isl: 30, osl: 15}
  - name: long
    random: {isl: 3000, osl: 15}
loads:
  - concurrency: [1, 2]
    requests: 10
`

// changed returns a plan's YAML after the assignments, and the plan.
func changed(source string, assignments ...string) ([]byte, *spatev1.Plan, error) {
	plan := &spatev1.Plan{}
	d, err := Parse("plan", []byte(source), plan.ProtoReflect().Descriptor(), 1<<20)
	if err != nil {
		return nil, nil, err
	}
	if err := d.Edit(); err != nil {
		return nil, nil, err
	}
	err = d.Assign(assignments, func(item proto.Message) string {
		w, is := item.(*spatev1.Workload)
		if !is {
			return ""
		}
		r := w.GetRandom()
		return fmt.Sprintf("%d:%d", r.GetIsl(), r.GetOsl())
	})
	if err != nil {
		return nil, nil, err
	}
	err = d.Read(plan)
	return d.Source(), plan, err
}

func TestAssign(t *testing.T) {
	tests := map[string]struct {
		set  []string
		want string // What the plan must then have, in YAML's shortest form.
		gone string
	}{
		"field":         {[]string{"seed=7"}, "seed: 7\n", "seed: 1"},
		"comment stays": {[]string{"name=other"}, "# What it is for.\nname: other # its name\n", "settable"},
		"by index":      {[]string{"loads[0].requests=50"}, "requests: 50\n", "requests: 10"},
		"endpoints by name": {[]string{"targets.a.endpoints=http://h:1,http://h:2?x=1"},
			"endpoints: ['http://h:1', 'http://h:2?x=1'] # replace me\n", "placeholder"},
		"a name with a dot": {[]string{"targets.a.b.model=x"}, "- {name: a.b, simulator: {}, model: x}\n", ""},
		"an item of a list": {[]string{"targets[0].endpoints[0]=http://h"}, "endpoints: ['http://h']",
			"placeholder"},
		"list with commas": {[]string{"loads[0].concurrency=4,8"}, "concurrency: [4, 8]\n", "[1, 2]"},
		"list in brackets": {[]string{"loads[0].concurrency=[4, 8]"}, "concurrency: [4, 8]\n", "[1, 2]"},
		"texts in brackets": {[]string{`targets.a.endpoints=["http://x", 'http://y']`},
			"endpoints: [\"http://x\", 'http://y']", "placeholder"},
		"text that is a number":   {[]string{"targets.a.model=7"}, "model: \"7\"\n", ""},
		"text that is not YAML":   {[]string{"targets.a.model=a: [b"}, "model: 'a: [b'\n", ""},
		"text in quotes":          {[]string{`targets.a.model="x y"`}, "model: \"x y\"\n", ""},
		"message in braces":       {[]string{"slo={ttft: 2s}"}, "slo: {ttft: 2s}\n", ""},
		"message made on the way": {[]string{"slo.ttft=2s", "slo.e2e=20s"}, "slo:\n  ttft: 2s\n  e2e: 20s\n", ""},
		"workload by default name": {[]string{"workloads.30:15.random.isl=40"}, "random: {isl: 40, osl: 15}\n",
			"isl: 30,"},
		"workload by name": {[]string{"workloads.long.random.osl=9"}, "random: {isl: 3000, osl: 9}\n", ""},
		"header":           {[]string{"targets.a.headers.X-Region=eu"}, "headers:\n      X-Region: eu\n", ""},
		"region":           {[]string{"regions.eu=0.6", "regions.us=2"}, "regions:\n  eu: 0.6\n  us: 2\n", ""},
		"regions":          {[]string{"regions={eu: 0.6, us: 0.4}"}, "regions: {eu: 0.6, us: 0.4}\n", ""},
		"agent loss":       {[]string{"on_agent_loss=degrade"}, "on_agent_loss: degrade\n", ""},
		"body": {[]string{"targets.a.body.temperature=0.5", "targets.a.body.x.y=[1, {z: 2}]"},
			"body:\n      temperature: 0.5\n      x:\n        y: [1, {z: 2}]\n", ""},
		"one after the other": {[]string{"seed=7", "seed=8"}, "seed: 8\n", "seed: 7"},
		"whole target": {[]string{"targets[1]={name: c, simulator: {}}"}, "- {name: c, simulator: {}}\n",
			"a.b"},
		"a workload's field whole": {[]string{"workloads[0].random={isl: 1, osl: 2}"}, "- random: {isl: 1, osl: 2}\n",
			"osl: 15}\n  - name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := changed(settable, test.set...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(got), test.want) || test.gone != "" &&
				strings.Contains(string(got), test.gone) {
				t.Errorf("want %q and not %q, got\n%s", test.want, test.gone, got)
			}
		})
	}
}

// TestAssignSaysWhatThereIs: the error of an assignment names the step that fails and what is there instead.
func TestAssignSaysWhatThereIs(t *testing.T) {
	tests := map[string]string{
		"sede=7":                        `cannot set "sede": there is no field "sede"; did you mean "seed"?`,
		"colour=red":                    `cannot set "colour": there is no field "colour"; there are name, description, seed, targets, workloads, loads, drain_timeout, slo, pause, simulation, on_agent_loss, regions, fail_fast, thresholds, agents, order, canaries`,
		"targets.c.model=x":             `cannot set "targets.c.model": none of the targets is named "c"; there are: a, a.b`,
		"targets[2].model=x":            `cannot set "targets[2].model": there is no targets[2]: the plan has 2 of them, from 0`,
		"targets[-1].model=x":           `cannot set "targets[-1].model": there is no targets[-1]: the plan has 2 of them, from 0`,
		"targets[a].model=x":            `cannot set "targets[a].model": expected an index like [0] after targets, got "[a].model"`,
		"targets.a.modell=x":            `cannot set "targets.a.modell": there is no field "modell"; did you mean "model"?`,
		"loads.x.requests=1":            `cannot set "loads.x.requests": none of the loads is named "x"; there are: loads[0]`,
		"workloads.x.random.isl=1":      `cannot set "workloads.x.random.isl": none of the workloads is named "x"; there are: 30:15, long`,
		"seed.x=1":                      `cannot set "seed.x": seed is one value: nothing can follow it, got ".x"`,
		"loads[0].concurrency[0].x=1":   `cannot set "loads[0].concurrency[0].x": concurrency[0] is one value: nothing can follow it, got ".x"`,
		"pause.x=1":                     `cannot set "pause.x": pause is one value: nothing can follow it, got ".x"`,
		"seed":                          `cannot set "seed": want FIELD=VALUE, such as loads[0].requests=50`,
		"=x":                            `cannot set "": want FIELD=VALUE, such as loads[0].requests=50`,
		"seed=":                         `cannot set "seed": the value is missing after the =`,
		"slo={ttft: [":                  `cannot set "slo": the value is not YAML: value:1:1: not readable as YAML: did not find expected node content`,
		"loads=x":                       `cannot set "loads": loads is a list: give it in brackets, or one of its items by its index or name`,
		"targets.a.headers.=x":          `cannot set "targets.a.headers.": a name is missing after the dot`,
		"seed=1\x00":                    `cannot set "seed": value:1:2: the file contains a NUL byte: it is not a text file, or it is UTF-16`,
		"targets.a.endpoints.sk-a.b=sk": `cannot set "targets.a.endpoints.sk-a.b": none of the endpoints is named "sk-a"; there are: endpoints[0]`,
	}
	for assignment, want := range tests {
		if _, _, err := changed(settable, assignment); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", assignment, err, want)
		}
	}
}

func TestAssignRefusesWhatIsNotAPlan(t *testing.T) {
	for text, want := range map[string]string{
		"":             "plan: the plan is empty",
		"- a":          "plan:1:1: expected fields (name: value), got a list",
		"name: [":      "plan:1:7: not readable as YAML",
		"name: \x00":   "plan:1:7: the file contains a NUL byte",
		"targets: x":   `cannot set "targets[0].model": expected a list at targets, but the plan has text there`,
		"targets: []":  `cannot set "targets[0].model": there is no targets[0]: the plan has 0 of them, from 0`,
		"targets: [x]": `cannot set "targets[0].model": expected fields before "model", but the plan has text there`,
	} {
		if _, _, err := changed(text, "targets[0].model=x"); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// TestAssignTakesAnyText: whatever name a model is given, the plan then has it.
func TestAssignTakesAnyText(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab1 :#-'\"\\{}[],&*!|>%@`~?=<.\u00e9"))).Filter(func(s string) bool {
		return s != "" && !strings.ContainsAny(s[:1], `"'`)
	})
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.OneOf(text, rapid.SampledFrom([]string{"<<", "=", "~", "null", "yes", "0x1f", "2026-11-23",
			"---", "..."})).Draw(t, "model")
		text, plan, err := changed(settable, "targets.a.model="+model)
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.GetTargets()[0].GetModel(); got != model {
			t.Errorf("want %q, got %q from\n%s", model, got, text)
		}
	})
}

// FuzzAssign: any assignment is refused or gives something that can be read again.
func FuzzAssign(f *testing.F) {
	for _, seed := range []string{"seed=7", "targets.a.endpoints=x,y", "targets.a.b.model=x", "slo={ttft: 2s}",
		"loads[0].x=", "a=&a [*a]", "=", "seed=*x", "targets[0]=~", "seed=<<: 3", "targets.a.body.a.b=!!binary x"} {
		f.Add(settable, seed)
	}
	f.Fuzz(func(t *testing.T, source, assignment string) {
		got, _, err := changed(source, assignment)
		if err != nil {
			return
		}
		if _, err := parse("again", got); err != nil {
			t.Errorf("%q makes what cannot be read: %v\n%s", assignment, err, got)
		}
	})
}
