package plans

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/plans/rules"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// TestShippedPlansAreRight loads every plan that ships with the program.
func TestShippedPlansAreRight(t *testing.T) {
	names := Shipped()
	if len(names) == 0 {
		t.Fatal("no plan is shipped")
	}
	for _, name := range names {
		data, err := Open(name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if p := load(t, string(data)); p.Name() != name {
			t.Errorf("%s.yaml is named %q", name, p.Name())
		}
	}
}

// TestClusterPlansAreRight loads the plans for clusters as spate plan validate does. Each finds pods with metrics by
// kubernetes, and runs without a cluster as a simulation.
func TestClusterPlansAreRight(t *testing.T) {
	files, err := filepath.Glob("../deployments/plans/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d plans for clusters (%v), want 3", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(file, data, Options{Discover: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := editorSays(t, string(data)); err != nil {
			t.Errorf("%s: an editor marks %v", file, err)
		}
		if p.Name()+".yaml" != filepath.Base(file) {
			t.Errorf("%s is named %q", file, p.Name())
		}
		for _, target := range p.Targets() {
			if target.GetKubernetes().GetMetricsSelector() == "" || target.GetSimulator() != nil {
				t.Errorf("%s: target %v does not find pods in a cluster", file, target)
			}
		}
		simulated, err := Load(file, data, Options{Discover: true, Changes: Changes{Simulate: 4}})
		if err != nil || len(simulated.Simulated()) != len(p.Targets()) {
			t.Errorf("%s cannot be simulated: %v", file, err)
		}
	}
}

// TestQuickstartIsShort: the demo has 90 s in total.
func TestQuickstartIsShort(t *testing.T) {
	data, err := Open("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	stages, err := load(t, string(data)).Stages(Resources{Endpoints: map[string][]string{"simulated": {"http://a",
		"http://b"}}})
	if err != nil || len(stages) != 14 {
		t.Fatalf("%d stages, %v", len(stages), err)
	}
	var total time.Duration
	for _, s := range stages {
		d, known := ExpectedDuration(s)
		if !known {
			t.Fatalf("stage %d has no known length", s.GetIndex())
		}
		const overhead = 500 * time.Millisecond
		total += d + overhead
	}
	if total > 60*time.Second {
		t.Errorf("takes %v without drains", total)
	}
}

func TestOpenUnknown(t *testing.T) {
	for _, name := range []string{"nothing", "../plans/quickstart", ""} {
		if _, err := Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// around holds what the examples of the pages about plans leave out.
var around = []struct{ key, text string }{
	{"name:", "name: example\n"},
	{"targets:", "targets: [{name: t, endpoints: [\"http://h\"], model: m}]\n"},
	{"workloads:", "workloads: [{random: {isl: 10, osl: 10}}]\n"},
	{"loads:", "loads: [{rate: [1], duration: 10s}]\n"},
}

// pages returns the pages about plans, joined.
func pages(t *testing.T) string {
	var all strings.Builder
	for _, name := range []string{"plan", "targets", "workloads", "loads", "simulator", "settings"} {
		text, err := os.ReadFile("../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestDocumentedPlansAreRight loads every example of the pages about plans.
func TestDocumentedPlansAreRight(t *testing.T) {
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(pages(t), -1)
	if len(examples) < 15 {
		t.Fatalf("only %d examples", len(examples))
	}
	shown := make(map[string]bool)
	for _, example := range examples {
		text := example[1]
		for _, part := range around {
			if !strings.Contains("\n"+text, "\n"+part.key) {
				text += part.text
			}
		}
		p, err := Load("plan.yaml", []byte(text), Options{Discover: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(p.Outline()) == 0 {
			t.Errorf("no stages:\n%s", text)
		}
		for _, w := range p.msg.GetWorkloads() {
			shown[content.Kind(w)] = true
		}
		for _, l := range p.msg.GetLoads() {
			l.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				shown[f.TextName()] = true
				return true
			})
		}
	}
	contents := (&spatev1.Workload{}).ProtoReflect().Descriptor().Oneofs().ByName("content").Fields()
	for i := range contents.Len() {
		if kind := contents.Get(i).TextName(); !shown[kind] && kind != "burstgpt" {
			t.Errorf("there is no example of the workload %s", kind)
		}
	}
	for _, kind := range rules.LoadKinds {
		if !shown[kind] {
			t.Errorf("there is no example of the load %s", kind)
		}
	}
}

// TestDocumentationIsComplete checks that the pages about plans have every field that a person may write.
func TestDocumentationIsComplete(t *testing.T) {
	text, seen := pages(t), make(map[protoreflect.FullName]bool)
	var check func(m protoreflect.MessageDescriptor)
	check = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || m.FullName().Parent() != "spate.v1" {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if !regexp.MustCompile("[`.{, ]" + f.TextName() + "[`,.}:]").MatchString(text) {
				t.Errorf("no page about plans says %s", f.FullName())
			}
			if f.Message() != nil {
				check(f.Message())
			}
		}
	}
	check((&spatev1.Plan{}).ProtoReflect().Descriptor())
}
