package plans

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// withSettings returns a plan with one target that has these settings.
func withSettings(settings string) string {
	return `name: p
targets:
  - name: vllm
    endpoints: ["http://h:1"]
    model: m
    hardware: "{max_num_seqs} of {mode} {width} {other}"
    gpus: "{width}"
    settings:
` + settings + `
workloads: [{random: {isl: 3, osl: 2}}]
loads: [{concurrency: 1, requests: 1}]
`
}

// Each combination of settings is a target of its own, with its settings as labels, in the order of the values.
func TestSettings(t *testing.T) {
	plan, err := Load("p.yaml", []byte(withSettings(`
      max_num_seqs: [4, 16]
      mode: [off, all]
      width: 8
      exclude: [{max_num_seqs: 16, mode: off}]
      include: [{max_num_seqs: 1, mode: "a,b", width: 2, other: x}]
      baseline: {max_num_seqs: 4, mode: all}`)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, target := range plan.Targets() {
		labels := target.GetLabels()
		got = append(got, fmt.Sprintf("%s | %s | %d | %s %s %s | %v", target.GetName(), target.GetHardware(),
			target.GetGpus(), labels["max_num_seqs"], labels["mode"], labels["other"], target.GetBaseline()))
	}
	want := []string{
		"vllm max_num_seqs:4 mode:off width:8 | 4 of off 8 {other} | 8 | 4 off  | false",
		"vllm max_num_seqs:4 mode:all width:8 | 4 of all 8 {other} | 8 | 4 all  | true",
		"vllm max_num_seqs:16 mode:all width:8 | 16 of all 8 {other} | 8 | 16 all  | false",
		"vllm max_num_seqs:1 mode:a-b width:2 other:x | 1 of a,b 2 x | 2 | 1 a,b x | false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the targets are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	again, err := Load("p.yaml", plan.Source(), Options{})
	if err != nil || len(again.Targets()) != len(want) || strings.Contains(string(plan.Source()), "settings") {
		t.Errorf("what is submitted is not the targets: %v\n%s", err, plan.Source())
	}
	one, err := Load("p.yaml", []byte(withSettings("      {max_num_seqs: [1, 2], mode: a, width: 1}")),
		Options{Changes: Changes{Set: []string{"targets.vllm.settings.max_num_seqs=[3,4]"}, Only: []string{"vllm max_num_seqs:4 mode:a width:1"}}})
	if err != nil || len(one.Targets()) != 1 {
		t.Errorf("with --set and --only: %v", err)
	}
}

// A name of the author's own says the settings itself.
func TestSettingsNames(t *testing.T) {
	text := strings.Replace(withSettings("      {max_num_seqs: [1, 2], mode: [a, b], width: 3}"), "name: vllm",
		`name: "v{max_num_seqs}-{mode}"`, 1)
	plan, err := Load("p.yaml", []byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Targets()[3].GetName(); got != "v2-b" {
		t.Errorf("the last target is %q", got)
	}
}

// A setting that no text has is appended to the command of the target's server, in the words of its command line.
func TestSettingsOfAServer(t *testing.T) {
	text := strings.Replace(withSettings("      {max_num_seqs: 1, mode: x, width: 3, chunked_prefill: [true, false, null], spec: [b c]}"),
		`endpoints: ["http://h:1"]`, `server: {start: [vllm, "{port}"]}`, 1)
	text = strings.Replace(text, "name: vllm", `name: "{chunked_prefill} {spec}"`, 1)
	plan, err := Load("p.yaml", []byte(text), Options{Discover: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, target := range plan.Targets() {
		got = append(got, strings.Join(target.GetServer().GetStart(), "|"))
	}
	if want := []string{"vllm|{port}|--chunked-prefill|--spec|b c", "vllm|{port}|--no-chunked-prefill|--spec|b c",
		"vllm|{port}|--spec|b c"}; !slices.Equal(got, want) {
		t.Errorf("the commands are %q, want %q", got, want)
	}
	for _, stage := range plan.Outline() {
		if len(stage.GetTarget().GetServer().GetStart()) > 0 || stage.GetBlock() == 0 {
			t.Errorf("stage of %s: block %d, and agents learn %v", stage.GetTarget().GetName(), stage.GetBlock(), stage.GetTarget().GetServer())
		}
	}
}

// The stages of targets with servers run in blocks, in turns; a target without one takes part in the turns.
func TestBlocks(t *testing.T) {
	const text = `name: p
targets:
  - {name: a, model: m, server: {start: ["{port}"]}}
  - {name: b, model: m, endpoints: ["h:1"]}
  - {name: c, model: m, server: {start: ["{port}"]}}
workloads: [{random: {isl: 3, osl: 2}}, {random: {isl: 4, osl: 2}}]
loads: [{concurrency: [1, 2], requests: 1, repeats: 2}]
`
	for order, want := range map[string]string{
		"":                "a1 a1 a1 a1 b0 b0 b0 b0 c3 c3 c3 c3 c4 c4 c4 c4 b0 b0 b0 b0 a6 a6 a6 a6",
		"order: target\n": "a1 a1 a1 a1 a1 a1 a1 a1 b0 b0 b0 b0 b0 b0 b0 b0 c3 c3 c3 c3 c3 c3 c3 c3",
	} {
		plan, err := Load("p.yaml", []byte(text+order), Options{Discover: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, stage := range plan.Outline() {
			got = append(got, fmt.Sprint(stage.GetTarget().GetName(), stage.GetBlock()))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: the blocks are\n%s\nwant\n%s", order, got, want)
		}
	}
}

// What is wrong with settings is told where it is written, before any target is made of them.
func TestWrongSettings(t *testing.T) {
	for settings, want := range map[string]string{
		"[1, 2]":           "p.yaml:9:7: targets[0].settings: expected settings with their values, such as max_num_seqs: [256, 512], got a list",
		"{max_num_seqs: }": "null leaves an option out, but {max_num_seqs} stands in a text: give a value",
		"{a: [" + unlike(100) + "], b: [" + unlike(100) + "]}": "are 10000 combinations, more than the limit of 256",
		"{mode: [{x: 1}]}":                            "a value of mode must be text, a number, true, false or null, got fields",
		"{nothing: 1}":                                "nothing is used nowhere: write {nothing} in a field of the target",
		"{mode: a, exclude: [{mode: a}]}":             "leave no combination: exclude less",
		"{mode: [a, b], baseline: {max_num_seqs: 1}}": "baseline: 0 combinations have these settings, it must be one",
		"{mode: [a, b], include: {mode: c}}":          "expected settings with one value each, such as {max_num_seqs: 256}, got text",
		"{mode: [a, b], include: [{mode: a}]}":        `the name "vllm mode:a" is already used by targets[0]`,
	} {
		_, err := Load("p.yaml", []byte(withSettings("      "+settings)), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", settings, err, want)
		}
	}
}

// unlike returns the numbers up to n.
func unlike(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return strings.Join(all, ", ")
}
