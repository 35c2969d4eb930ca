package plans

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChangesKeepTheRest: a plan that is set to its own values is the same plan.
func TestChangesKeepTheRest(t *testing.T) {
	for _, name := range Shipped() {
		data, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		before := load(t, string(data))
		same := changed(t, string(data), Changes{Set: []string{"name=" + before.Name()}})
		if diff := cmp.Diff(before.Proto().String(), same.Proto().String()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if a, b := strings.Count(string(data), "#"), strings.Count(string(same.Source()), "#"); a != b {
			t.Errorf("%s: %d of %d comments are left", name, b, a)
		}
	}
}

// changed loads a plan with changes.
func changed(t *testing.T, text string, changes Changes) *Plan {
	t.Helper()
	p, err := Load("p", []byte(text), Options{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const plain = `name: p # kept
targets:
  - {name: a, simulator: {}}
  - {name: b, simulator: {}} # the second
  - {name: c, simulator: {}}
workloads: [{random: {isl: 1, osl: 1}}]
loads: [{rate: [1], requests: 1}]
`

func TestSimulate(t *testing.T) {
	for _, source := range []string{plain, plain + "simulation: {speed: 3} # slower\n"} {
		p := changed(t, source, Changes{Simulate: 20})
		if !strings.Contains(string(p.Source()), "simulation: {speed: 20}") {
			t.Errorf("got\n%s", p.Source())
		}
		if speed, is := p.Compression(); speed != 20 || !is {
			t.Errorf("speed %v, %v", speed, is)
		}
	}
}

func TestOnly(t *testing.T) {
	p := changed(t, plain, Changes{Only: []string{"c", "b"}})
	var names []string
	for _, s := range p.Outline() {
		names = append(names, s.GetTarget().GetName())
	}
	if !slices.Equal(names, []string{"b", "c"}) || !strings.Contains(string(p.Source()), "# kept") ||
		!strings.Contains(string(p.Source()), "# the second") {
		t.Errorf("%v\n%s", names, p.Source())
	}
	for source, want := range map[string]string{
		plain:               `p: none of the targets is named "x"; there are: a, b, c`,
		"name: p":           "p: the plan has no list of targets",
		"targets: [1, [2]]": `p: none of the targets is named "x"`,
		"targets: 7":        "p: the plan has no list of targets",
	} {
		_, err := Load("p", []byte(source), Options{Changes: Changes{Only: []string{"x"}}})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestWithAddsToTheChanges: an index in a later change is that of the plan with the earlier changes.
func TestWithAddsToTheChanges(t *testing.T) {
	p := changed(t, plain, Changes{Set: []string{"seed=7"}, Only: []string{"b"}})
	again, err := p.With("targets[0].model=m")
	if err != nil {
		t.Fatal(err)
	}
	got := again.Proto()
	if got.GetSeed() != 7 || len(got.GetTargets()) != 1 || got.GetTargets()[0].GetModel() != "m" || got.GetTargets()[0].GetName() != "b" {
		t.Errorf("%v", got)
	}
}

// TestPositionsAreTheAuthors: with changes, mistakes have the lines of the file that the author sees. Mistakes in what
// a change added have none.
func TestPositionsAreTheAuthors(t *testing.T) {
	const text = `# A comment.

name: p

targets:

  - name: a
    simulator: {}

workloads:
  - random: {isl: 1, osl: 0}
loads:

  - {rate: 5, requests: 1, warmup: 10q}
`
	_, err := Load("p", []byte(text), Options{Changes: Changes{Simulate: 10, Set: []string{"loads[0].rate=-1", "pause=x"}}})
	want := `p: loads[0].rate[0]: must be greater than 0 and at most 10000000, got -1
p: pause: expected a duration like 30s or 5m, got "x"
p:11:27: workloads[0].random.osl: must be at least 1 and at most 16777216, got 0
p:14:36: loads[0].warmup: expected fields (name: value), got text`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
