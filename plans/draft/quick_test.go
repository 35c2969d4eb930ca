package draft_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/draft"
)

var update = flag.Bool("update", false, "write golden files again")

// load returns a plan that must have no mistakes.
func load(t interface {
	Helper()
	Fatal(args ...any)
}, text string) *plans.Plan {
	t.Helper()
	p, err := plans.Load("plan.yaml", []byte(text), plans.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestQuickGolden(t *testing.T) {
	tests := map[string]draft.Quick{
		"common": {
			Targets: []string{"http://localhost:8000"}, Model: "Qwen/Qwen3-32B", Concurrency: []uint{1, 2, 4},
			ISL: 3000, OSL: 150,
		},
		"everything": {
			Name: "all", Targets: []string{"https://a.example, https://b.example:8443", "http://[::1]:80",
				"https://a.example"}, API: "completions",
			Model: "true", APIKey: "env:KEY", Headers: map[string]string{"X-B": "1: #", "X-A": "file:a b"},
			Body: map[string]any{"ignore_eos": true, "temperature": 0, "seed": nil, "stop": []string{"a", "<b>"}}, ISL: 1, OSL: 2,
			Concurrency: []uint{8}, Rate: []float64{0.5, 20}, Arrival: "constant", Requests: 100,
			Duration:       90 * time.Minute,
			WarmupRequests: 3, WarmupDuration: time.Minute, Seed: 7, Stagger: 2 * time.Second,
			MaxInFlight: 64,
		},
		"embeddings": {
			Targets: []string{"http://localhost:8000"}, API: "embeddings", Model: "m", Concurrency: []uint{4}, ISL: 512, OSL: 100,
		},
	}
	for name, quick := range tests {
		t.Run(name, func(t *testing.T) {
			path, got := "testdata/quick-"+name+".golden", quick.YAML()
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("if the new plan is right, go test ./plans/draft -update (-want +got):\n%s", diff)
			}
			load(t, string(got))
		})
	}
}

// TestQuickSaysWhatItWasTold: the loaded plan has the same texts, whatever they are.
func TestQuickSaysWhatItWasTold(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab1 :#-'\"\\{}[],&*!|>%@`~?=<.\u00e9\t\n"))).Filter(func(s string) bool { return s != "" })
	rapid.Check(t, func(t *rapid.T) {
		model, key, value := text.Draw(t, "model"), text.Draw(t, "key"), text.Draw(t, "value")
		quick := draft.Quick{
			Targets: []string{"http://h"}, Model: model, ISL: 1, OSL: 1,
			Rate: []float64{rapid.Float64Range(0.001, 1e6).Draw(t, "rate")},
			Body: map[string]any{key: map[string]any{key: value, "n": 1.5, "l": []any{true, nil}}},
		}
		got := load(t, string(quick.YAML())).Proto()
		body, err := structpb.NewStruct(quick.Body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(body, got.GetTargets()[0].GetBody(), protocmp.Transform()); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		if got.GetTargets()[0].GetModel() != model || got.GetLoads()[0].GetRate()[0] != quick.Rate[0] {
			t.Errorf("want model %q and rate %v, got\n%s", model, quick.Rate[0], quick.YAML())
		}
	})
}

func TestQuickMistakesAreFound(t *testing.T) {
	_, err := plans.Load("flags", draft.Quick{Targets: []string{"localhost"}, Duration: -time.Second}.YAML(), plans.Options{})
	for _, want := range []string{"endpoints[0]: must be a base URL", "has no model", "isl: must be at least 1",
		"is an empty list", "duration: must be greater than 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not said: %v", want, err)
		}
	}
}

func TestQuickShowsNoSecrets(t *testing.T) {
	text := draft.Quick{
		Targets: []string{"http://u:sk-1@h", "http://u:sk-4 @h"}, Model: "m", APIKey: "sk-2",
		Headers: map[string]string{"cookie": "sk-3", "X-My-Token": "sk-5"}, Body: map[string]any{"apiKey": "sk-6"},
		ISL: 1, OSL: 1, Concurrency: []uint{1},
	}.YAML()
	if strings.Contains(string(text), "sk-") {
		t.Errorf("a secret is in the plan:\n%s", text)
	}
	_, err := plans.Load("flags", text, plans.Options{})
	for _, want := range []string{"user or password", "api_key: must say where", "has the name of a secret"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not said: %v", want, err)
		}
	}
}
