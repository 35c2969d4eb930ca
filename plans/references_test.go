package plans

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const secretive = `
name: secretive
targets:
  - name: a
    endpoints: ["http://a"]
    model: m
    api_key: env:SPATE_TEST_KEY
    headers: {X-Org: file:ORG, X-Plain: text}
  - name: b
    endpoints: ["http://b"]
    model: m
    headers:
      Authorization: env:SPATE_TEST_KEY
workloads:
  - random: {isl: 1, osl: 1}
loads:
  - {rate: [1], duration: 1s}
`

func TestSecrets(t *testing.T) {
	p := load(t, secretive)
	asked := 0
	got, err := p.Secrets(func(reference string) (string, error) {
		asked++
		return "value of " + reference, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"env:SPATE_TEST_KEY": "value of env:SPATE_TEST_KEY", "file:ORG": "value of file:ORG"}
	if diff := cmp.Diff(want, got); diff != "" || asked != 2 {
		t.Errorf("asked %d times (-want +got):\n%s", asked, diff)
	}
	if diff := cmp.Diff([]string{"env:SPATE_TEST_KEY", "file:ORG"}, secret.Of(p.Proto().GetTargets()[0])); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

func TestSecretsMissing(t *testing.T) {
	values := map[string]string{"file:ORG": "sk-secret\r\nInjected: y"}
	_, err := load(t, secretive).Secrets(func(reference string) (string, error) {
		if value, ok := values[reference]; ok {
			return value, nil
		}
		return "", errors.New("not there")
	})
	const want = `plan.yaml:7:14: targets[0].api_key: not there
plan.yaml:8:22: targets[0].headers["X-Org"]: file:ORG has line breaks or control characters and cannot be sent in a header
plan.yaml:13:22: targets[1].headers["Authorization"]: not there`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestSecretsOfConnections(t *testing.T) {
	p := load(t, `
name: connected
targets:
  - name: a
    endpoints: ["https://a"]
    model: m
    connection: {proxy: "http://p:3128", proxy_auth: env:AUTH, ca: file:CA, certificate: env:CERT, key: env:KEY}
  - name: b
    simulator: {}
    connection: {reuse: new}
workloads:
  - random: {isl: 1, osl: 1}
loads:
  - {rate: [1], duration: 1s}
`)
	values := map[string]string{
		"env:AUTH": "user:password", "file:CA": "-----BEGIN CERTIFICATE-----\nsk-a\n",
		"env:CERT": "-----BEGIN CERTIFICATE-----\nsk-b\n",
		"env:KEY":  "-----BEGIN PRIVATE KEY-----\nsk-c\n",
	}
	lookup := func(reference string) (string, error) { return values[reference], nil }
	got, err := p.Secrets(lookup)
	if diff := cmp.Diff(values, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"env:AUTH", "env:CERT", "env:KEY", "file:CA"},
		secret.Of(p.Proto().GetTargets()[0])); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	values["env:AUTH"], values["file:CA"], values["env:CERT"] = "sk-password", "sk-a", "-----BEGIN sk-b"
	_, err = p.Secrets(lookup)
	const want = `plan.yaml:7:54: targets[0].connection.proxy_auth: env:AUTH must hold a user and a password with a colon between them
plan.yaml:7:68: targets[0].connection.ca: file:CA has nothing in PEM: it must have a line such as -----BEGIN CERTIFICATE-----`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if simulated := defaults.SimulatedTarget(p.msg.GetTargets()[0]); len(secret.Of(simulated)) > 0 ||
		simulated.GetConnection() != nil {
		t.Errorf("a simulation would need %v: %v", secret.Of(simulated), simulated.GetConnection())
	}
}

func TestEmptySecretIsMissing(t *testing.T) {
	_, err := load(t, secretive).Secrets(func(string) (string, error) { return "", nil })
	if err == nil || !strings.Contains(err.Error(), "plan.yaml:7:14: targets[0].api_key: env:SPATE_TEST_KEY is empty") {
		t.Errorf("got %v", err)
	}
}

// TestLoadLooksUp: Load reports a missing secret together with all other mistakes, and a badly written reference once.
func TestLoadLooksUp(t *testing.T) {
	text := strings.NewReplacer("rate: [1]", "rate: [-1]", "file:ORG", "file:").Replace(secretive)
	lookup := func(reference string) (string, error) { return "", errors.New(reference + " is not there") }
	_, err := Load("plan.yaml", []byte(text), Options{Lookup: lookup})
	const want = `plan.yaml:7:14: targets[0].api_key: env:SPATE_TEST_KEY is not there
plan.yaml:8:22: targets[0].headers["X-Org"]: must be env:NAME with letters, digits and underscores, or file:PATH
plan.yaml:13:22: targets[1].headers["Authorization"]: env:SPATE_TEST_KEY is not there
plan.yaml:17:13: loads[0].rate[0]: must be greater than 0 and at most 10000000, got -1`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

const withFiles = `
name: files
targets:
  - {name: a, endpoints: ["http://h"], model: m, tokenizer: "file:tokenizer.json"}
  - {name: b, endpoints: ["http://h"], model: m, tokenizer: server}
workloads:
  - mooncake: {path: trace.jsonl.gz}
  - {name: other, azure: {path: trace.csv, max_skipped: 0}}
loads:
  - {replay: {speed: 2}, warmup: {requests: 100}}
  - {replay: {}, requests: 50}
  - {replay: {}, duration: 60s}
  - {replay: {}, cooldown: 5s}
`

func datasets(rows uint64) map[string]*spatev1.Dataset {
	d := &spatev1.Dataset{Sha256: "x", Rows: rows, Span: durationpb.New(100 * time.Second)}
	return map[string]*spatev1.Dataset{"mooncake": d, "other": d}
}

func TestStagesTakeResources(t *testing.T) {
	words := &spatev1.Lexicon{Words: []string{"a"}, Source: "file"}
	p := load(t, withFiles)
	stages, err := p.Stages(Resources{Datasets: datasets(1000), Lexicons: map[string]*spatev1.Lexicon{"a": words}})
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 16 {
		t.Fatalf("%d stages", len(stages))
	}
	var requests []uint64
	for i, s := range stages {
		if s.GetDataset().GetRows() != 1000 || (s.GetLexicon() == words) != (s.GetTarget().GetName() == "a") {
			t.Errorf("stage %d: dataset %v, lexicon %v", i, s.GetDataset(), s.GetLexicon())
		}
		if s.GetLexicon() == words {
			requests = append(requests, s.GetLoad().GetRequests())
		}
	}
	if diff := cmp.Diff([]uint64{900, 50, 0, 0}, requests[:4]); diff != "" {
		t.Errorf("a replay ends with its trace (-want +got):\n%s", diff)
	}
	if w := stages[0].GetWorkload().GetMooncake(); w.GetBlockTokens() != 512 || w.GetMaxSkipped() != 0.01 {
		t.Errorf("defaults: %v", w)
	}
	if w := stages[8].GetWorkload().GetAzure(); w.GetBlockTokens() != 0 || w.MaxSkipped == nil ||
		w.GetMaxSkipped() != 0 {
		t.Errorf("a share of 0 that is given: %v", w)
	}
	for i, s := range p.Outline() {
		if s.GetSeed() != stages[i].GetSeed() || s.GetDataset() != nil {
			t.Errorf("outline of stage %d: seed %d, dataset %v", i, s.GetSeed(), s.GetDataset())
		}
	}
}

func TestStagesSayWhatIsMissing(t *testing.T) {
	tests := map[string]struct {
		resources Resources
		want      string
	}{
		"everything": {Resources{}, `
plan.yaml:4:61: targets[0].tokenizer: the tokenizer of target "a" was not read: run the plan with ` + "`spate run`" + `
plan.yaml:7:22: workloads[0].mooncake.path: the file of workload "mooncake" was not read: run the plan with ` +
			"`spate run`" + `
plan.yaml:8:33: workloads[1].azure.path: the file of workload "other" was not read: run the plan with ` +
			"`spate run`"},
		"rows": {Resources{Datasets: datasets(40), Lexicons: map[string]*spatev1.Lexicon{"a": {}}}, `
plan.yaml:10:45: loads[0].warmup.requests: the trace of workload "mooncake" has 40 rows: a warm-up of 100 requests leaves none to measure
plan.yaml:10:45: loads[0].warmup.requests: the trace of workload "other" has 40 rows: a warm-up of 100 requests leaves none to measure
plan.yaml:11:28: loads[1].requests: the trace of workload "mooncake" has 40 rows, 0 of them warm-up: at most 40 requests can be measured
plan.yaml:11:28: loads[1].requests: the trace of workload "other" has 40 rows, 0 of them warm-up: at most 40 requests can be measured`},
	}
	for name, test := range tests {
		stages, err := load(t, withFiles).Stages(test.resources)
		if err == nil || stages != nil {
			t.Fatalf("%s: %d stages, no error", name, len(stages))
		}
		if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFiles(t *testing.T) {
	p := load(t, `
name: files
targets:
  - {name: a, simulator: {}, tokenizer: "file:/dir/tokenizer.json", api_key: "file:key"}
  - {name: b, simulator: {}}
workloads:
  - random: {isl: 1, osl: 1}
  - sonnet: {path: s.txt, isl: 1, osl: 1}
  - sharegpt: {path: c.json}
  - jsonl: {path: p.jsonl}
  - burstgpt: {path: t.csv}
loads:
  - {rate: [1], duration: 1s}
`)
	want := [][2]string{
		{"targets[0].tokenizer", "/dir/tokenizer.json"}, {"workloads[1].sonnet.path", "s.txt"},
		{"workloads[2].sharegpt.path", "c.json"},
		{"workloads[3].jsonl.path", "p.jsonl"}, {"workloads[4].burstgpt.path", "t.csv"},
	}
	var got [][2]string
	for _, f := range p.Files() {
		got = append(got, [2]string{f.Field, f.Path})
		if (f.Workload == nil) == (f.Target == nil) {
			t.Errorf("%s belongs to workload %v and target %v", f.Field, f.Workload, f.Target)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	jsonl := p.Files()[3]
	if w := jsonl.Workload; w.GetName() != "jsonl" || w.GetJsonl().GetOsl() != 0 ||
		w.GetJsonl().GetOrder() != "shuffled" {
		t.Errorf("defaults: %v", w)
	}
	const says = "plan.yaml:10:19: workloads[3].jsonl.path: cannot be read"
	if m := p.Mistake(jsonl.Field, "cannot be read"); m.Error() != says {
		t.Errorf("got %q, want %q", m.Error(), says)
	}
}

func TestProbeSeed(t *testing.T) {
	template := &spatev1.Stage{Seed: 7, Target: &spatev1.Target{Name: "a"}}
	seed := func(seed uint64, rate float64, probe *spatev1.Probe) uint64 {
		s := proto.CloneOf(template)
		s.Seed = seed
		return ProbeSeed(s, &spatev1.LoadPoint{Rate: rate, Arrival: "poisson"}, probe)
	}
	base := seed(7, 2, &spatev1.Probe{Number: 1})
	const pinned = 1809740049532508628
	if base != pinned {
		t.Errorf("the hash has changed, and with it the requests of every search: %d", base)
	}
	if seed(7, 2, &spatev1.Probe{Number: 1, Series: 3, Purpose: "bisect"}) != base {
		t.Error("another target's search sends other requests")
	}
	for what, other := range map[string]uint64{
		"template": seed(8, 2, &spatev1.Probe{Number: 1}), "load": seed(7, 3, &spatev1.Probe{Number: 1}),
		"number": seed(7, 2, &spatev1.Probe{Number: 2}),
	} {
		if other == base {
			t.Errorf("the %s has no effect", what)
		}
	}
}

// TestFieldsAreDeclaredByNumber: LoadKey, and so every seed, depends on that order.
func TestFieldsAreDeclaredByNumber(t *testing.T) {
	var check func(m protoreflect.MessageDescriptor)
	check = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if i > 0 && f.Number() < m.Fields().Get(i-1).Number() {
				t.Errorf("%s stands behind a larger number", f.FullName())
			}
			if f.Message() != nil && f.Message().ParentFile() == m.ParentFile() {
				check(f.Message())
			}
		}
	}
	check((&spatev1.LoadPoint{}).ProtoReflect().Descriptor())
}
