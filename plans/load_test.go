package plans

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans/draft"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

var update = flag.Bool("update", false, "write golden files again")

const mistakesFile = "testdata/mistakes.txtar"

// TestMistakes compares what Load reports about each plan of the archive with the expected text beside it.
func TestMistakes(t *testing.T) {
	archive, err := txtar.ParseFile(mistakesFile)
	if err != nil {
		t.Fatal(err)
	}
	golden := make(map[string]string)
	renewed := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		if name, ok := strings.CutSuffix(f.Name, ".golden"); ok {
			golden[name] = string(f.Data)
		}
	}
	for _, f := range archive.Files {
		name, ok := strings.CutSuffix(f.Name, ".yaml")
		if !ok {
			continue
		}
		_, err := Load("plan.yaml", f.Data, Options{MaxStages: 10})
		if err == nil {
			t.Errorf("%s: no mistakes found", name)
			continue
		}
		said := err.Error() + "\n"
		if strings.Contains(said, "sk-") {
			t.Errorf("%s: a secret is in the message:\n%s", name, said)
		}
		if !*update {
			if diff := cmp.Diff(golden[name], said); diff != "" {
				t.Errorf("%s: if the new messages are right, go test ./plans -run TestMistakes -update (-golden +said):\n%s",
					name, diff)
			}
		}
		renewed.Files = append(renewed.Files, f, txtar.File{Name: name + ".golden", Data: []byte(said)})
	}
	if *update {
		if err := os.WriteFile(mistakesFile, txtar.Format(renewed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var pathOfMistake = regexp.MustCompile(`(?m)^plan\.yaml:[0-9:]+: ([a-z_]+(?:\[[^\]]*\])*(?:\.[a-z_]+(?:\[[^\]]*\])*)*): `)

// TestMistakesNameFieldsOfPlans: a message names fields as people write them; "workloads[0].content" is not one.
func TestMistakesNameFieldsOfPlans(t *testing.T) {
	goldens, err := os.ReadFile(mistakesFile)
	if err != nil {
		t.Fatal(err)
	}
	index, seen := regexp.MustCompile(`\[[^\]]*\]`), 0
	for _, match := range pathOfMistake.FindAllStringSubmatch(string(goldens), -1) {
		seen++
		message := (&spatev1.Plan{}).ProtoReflect().Descriptor()
		for name := range strings.SplitSeq(index.ReplaceAllString(match[1], ""), ".") {
			field := message.Fields().ByTextName(name)
			if field == nil {
				t.Errorf("%s: a plan has no field %q", match[1], name)
				break
			}
			if message = field.Message(); message == nil || message.FullName() == "google.protobuf.Value" ||
				field.IsMap() {
				break
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d mistakes name a field", seen)
	}
}

// TestHostileText feeds Load what a text file cannot show.
func TestHostileText(t *testing.T) {
	laughs := "targets:\n- body:\n    a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		laughs += fmt.Sprintf("    %c: &%c [%s]\n", c, c,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	tests := map[string]struct{ text, want string }{
		"nul":               {"name: a\nb: \x00", "p:2:4: the file contains a NUL byte"},
		"utf-16":            {"\xff\xfen\x00", "p:1:1: the text is not UTF-8"},
		"invalid utf-8":     {"name: é\xc3(", "p:1:8: the text is not UTF-8"},
		"carriage returns":  {"name: a\rseed: 1\rx: y\r", "p:1:8: a carriage return without a line feed"},
		"line separator":    {"name: \"a\u2028b\"", "p:1:9: the line break U+2028"},
		"next line":         {"# \u0085name: a", "p:1:3: the line break U+0085"},
		"control character": {"name: \x07", "p:1:7: not readable as YAML: control characters are not allowed"},
		"too large": {strings.Repeat("#", 4<<20+1),
			"p: the plan has 4194305 bytes, more than the limit of 4194304"},
		"billion laughs":  {laughs, "aliases (*a) are not supported"},
		"self-containing": {"name: &a [*a]", "p:1:7: name: expected text, got a list"},
		"deep nesting":    {"targets: " + strings.Repeat("[", 20_000), "exceeded max depth"},
		"deep body": {"targets: [{body: {a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}}]",
			"nested more than 32 levels"},
		"many values":       {"targets: [" + strings.Repeat("0,", 200_000) + "]", "more than 100000 values"},
		"many mistakes":     {"loads: [" + strings.Repeat("{a: 1},", 20_000) + "]", " more"},
		"many rules broken": {"loads: [{rate: [" + strings.Repeat("-1,", 40_000) + "]}]", "loads[0].rate[0]: must be"},
		"long key":          {"? " + strings.Repeat("k", 1<<20) + "\n: 1", `unknown field "kkkk`},
		"windows line ends": {"name: a\r\nsead: 1\r\n", `p:2:1: unknown field "sead"; did you mean "seed"?`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load("p", []byte(test.text), Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %.500v", test.want, err)
			}
		})
	}
}

func TestLoadKeepsWhatItRead(t *testing.T) {
	data, err := Open("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load("dir/quickstart.yaml", data, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Name() != "quickstart" || p.Proto().GetSeed() != 1 || p.Path() != "dir/quickstart.yaml" ||
		!bytes.Equal(p.Source(), data) {
		t.Errorf("got name %q, seed %d, path %q", p.Name(), p.Proto().GetSeed(), p.Path())
	}
	p.Proto().Name = "changed"
	if p.Name() != "quickstart" {
		t.Error("a change of the copy changed the plan")
	}
}

// FuzzLoad: for any bytes, Load returns a plan that expands, or mistakes with positions inside the file.
func FuzzLoad(f *testing.F) {
	archive, err := txtar.ParseFile(mistakesFile)
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		f.Add(file.Data)
	}
	for _, name := range Shipped() {
		data, err := Open(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(draft.Quick{Targets: []string{"http://h:1"}, Model: "m", ISL: 1, OSL: 1, Rate: []float64{1}}.YAML())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Load("plan.yaml", data, Options{MaxStages: 100})
		if err != nil {
			checkMistakes(t, err, bytes.Count(data, []byte("\n"))+1)
			return
		}
		expands(t, p)
	})
}

func checkMistakes(t *testing.T, err error, lines int) {
	var ms Mistakes
	if !errors.As(err, &ms) || len(ms) == 0 {
		t.Fatalf("want mistakes, got %T: %v", err, err)
	}
	for _, m := range ms {
		if m.Message == "" || m.Line < 0 || m.Line > lines+1 || m.Column < 0 {
			t.Errorf("not a position in %d lines: %+v", lines, m)
		}
		if strings.Contains(m.Message, "YAML reader failed") {
			t.Errorf("a library panicked: %s", m.Message)
		}
	}
	if !slices.IsSortedFunc(ms, func(a, b Mistake) int { return a.Line - b.Line }) {
		t.Errorf("not in the order of lines:\n%v", ms)
	}
}

func expands(t *testing.T, p *Plan) {
	r := Resources{Endpoints: map[string][]string{}, Datasets: map[string]*spatev1.Dataset{},
		Lexicons: map[string]*spatev1.Lexicon{}}
	for _, target := range p.Simulated() {
		r.Endpoints[target.GetName()] = []string{"http://127.0.0.1:1"}
	}
	for _, f := range p.Files() {
		if f.Workload != nil {
			r.Datasets[f.Workload.GetName()] = &spatev1.Dataset{Rows: 1 << 40, Span: &durationpb.Duration{Seconds: 9}}
		} else {
			r.Lexicons[f.Target.GetName()] = &spatev1.Lexicon{}
		}
	}
	stages, err := p.Stages(r)
	if err != nil || len(stages) == 0 || len(stages) != len(p.Outline()) {
		t.Fatalf("a plan without mistakes gave %d stages: %v", len(stages), err)
	}
	for _, s := range stages {
		if err := protovalidate.Validate(s); err != nil {
			t.Fatalf("stage %v breaks a rule: %v", s, err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	data, err := Open("quickstart")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Load("quickstart.yaml", data, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCAOfMetrics checks when a connection's CA is allowed: with an endpoint, or with metrics on the host of an
// endpoint, that is reached over TLS.
func TestCAOfMetrics(t *testing.T) {
	for _, c := range []struct {
		endpoint, metrics string
		refused           bool
	}{
		{"https://h:8000", "", false},
		{"https://h:8000", "server_metrics: {urls: ['http://h:8081/metrics']}", false},
		{"http://h:8000", "server_metrics: {urls: ['http://h:8081/metrics', 'https://h:8443/metrics']}", false},
		{"http://h:8000", "", true},
		{"http://h:8000", "server_metrics: {}", true},
		{"http://h:8000", "server_metrics: {urls: ['http://h:8443/metrics']}", true},
		// on another host, where the connection does not apply
		{"http://h:8000", "server_metrics: {urls: ['https://other:8443/metrics']}", true},
	} {
		plan := fmt.Sprintf(`name: p
targets:
  - name: t
    endpoints: [%q]
    model: m
    connection: {ca: "file:ca.pem"}
    %s
workloads: [{random: {isl: 1, osl: 1}}]
loads: [{rate: [1], duration: 1s}]
`, c.endpoint, c.metrics)
		_, err := Load("plan.yaml", []byte(plan), Options{})
		if refused := err != nil; refused != c.refused || refused &&
			!strings.Contains(err.Error(), "connection.ca: works only with https:// endpoints, or https:// urls") {
			t.Errorf("%s with %q: %v", c.endpoint, c.metrics, err)
		}
	}
}

const judgedPlan = `name: p
targets:
  - {name: a, endpoints: [localhost:80], model: m}
  - {name: b, endpoints: [localhost:81], model: m}
workloads:
  - random: {isl: 10, osl: 10}
loads:
  - {concurrency: [8], requests: 5}
  - {rate: [2], requests: 5}
thresholds:
  - {that: ttft_ms.p99 < 500, target: a}
  - ttft_ms.p99 < 500 # of all
  - {that: ttft_ms.p99 < 500, load: 2 req/s poisson}
  - {that: ttft_ms.p99 < 500, load: concurrency 8}
`

// conditions returns the thresholds of a plan, each with what it is for.
func conditions(t *testing.T, source []byte) (found []string) {
	t.Helper()
	list, err := Thresholds(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		found = append(found, c.GetThat()+"|"+c.GetTarget()+"|"+c.GetLoad())
	}
	return found
}

// TestThresholdsOfParts: if targets are left out, thresholds for parts go with the mixtures of only these targets.
func TestThresholdsOfParts(t *testing.T) {
	const text = `name: p
targets:
  - {name: a, endpoints: [localhost:80], model: m}
  - {name: b, endpoints: [localhost:81], model: m}
workloads:
  - {name: plain, random: {isl: 10, osl: 10}}
  - name: mixed
    mix:
      parts:
        - {weight: 1, workload: {name: chat, random: {isl: 10, osl: 10}}}
        - {weight: 1, workload: {random: {isl: 10, osl: 11}}}
  - name: both
    mix:
      parts:
        - {weight: 1, workload: {random: {isl: 10, osl: 11}}}
        - {weight: 1, workload: {name: batch, random: {isl: 10, osl: 12}}}
loads:
  - {concurrency: [8], requests: 5, workloads: [plain, both]}
  - {concurrency: [8], requests: 5, workloads: [mixed], targets: [a]}
thresholds:
  - {that: ttft_ms.p99 < 1, part: chat}
  - {that: ttft_ms.p99 < 2, part: "10:11"}
  - {that: ttft_ms.p99 < 3}
`
	for only, want := range map[string][]string{
		"a": {"ttft_ms.p99 < 1||", "ttft_ms.p99 < 2||", "ttft_ms.p99 < 3||"},
		"b": {"ttft_ms.p99 < 2||", "ttft_ms.p99 < 3||"},
	} {
		p := changed(t, text, Changes{Only: []string{only}})
		if got := conditions(t, p.Source()); !slices.Equal(got, want) {
			t.Errorf("only %s: got %q, want %q", only, got, want)
		}
	}
}

// TestThresholdsOfPlans: a condition alone is a threshold, flags add more, and those of targets that are left out go.
func TestThresholdsOfPlans(t *testing.T) {
	load(t, judgedPlan)
	p := changed(t, judgedPlan, Changes{Only: []string{"b"}, Thresholds: []string{`model = "m, n"`}, Simulate: 10})
	want := []string{"ttft_ms.p99 < 500||", "ttft_ms.p99 < 500||20 req/s poisson", "ttft_ms.p99 < 500||concurrency 8",
		`model = "m, n"||`}
	if got := conditions(t, p.Source()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	short, _, _ := strings.Cut(judgedPlan, "  - ttft_ms")
	only := changed(t, short, Changes{Only: []string{"b"}})
	if got := conditions(t, only.Source()); got != nil {
		t.Errorf("of no target that is left: %q", got)
	}
	if got := conditions(t, nil); got != nil {
		t.Errorf("of no plan: %q", got)
	}
}
