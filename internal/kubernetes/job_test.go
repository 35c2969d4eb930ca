package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What a person gives is data in the manifest, whatever is in it, and its pods may do what the chart lets agents do.
func TestManifest(t *testing.T) {
	j := Job{Name: "spate-x", Agents: 4, Image: `r/spate:v1"}`, CPU: "2", Memory: "4Gi", NodeSelector: map[string]string{"pool": "a: b"},
		Args: []string{"agent", "--name=a-$(JOB_COMPLETION_INDEX)", "--region={x}"}, Token: "secret"}
	var text strings.Builder
	if err := jobTemplate.Execute(&text, &j); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Spec struct {
			Completions, Parallelism int
			Template                 struct {
				Spec struct {
					NodeSelector    map[string]string `yaml:"nodeSelector"`
					SecurityContext map[string]any    `yaml:"securityContext"`
					Containers      []struct {
						Image           string
						Args            []string
						SecurityContext map[string]any `yaml:"securityContext"`
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	spec := got.Spec.Template.Spec
	if c := spec.Containers[0]; c.Image != j.Image || !slices.Equal(c.Args, j.Args) || spec.NodeSelector["pool"] != "a: b" ||
		got.Spec.Parallelism != 4 || got.Spec.Completions != 4 {
		t.Errorf("%+v", got)
	}
	helpers, err := os.ReadFile("../../deployments/helm/spate/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	for name, context := range map[string]map[string]any{"spate.podSecurity": spec.SecurityContext,
		"spate.containerSecurity": spec.Containers[0].SecurityContext} {
		_, part, _ := strings.Cut(string(helpers), `define "`+name+`" -}}`)
		part, _, _ = strings.Cut(part, "{{- end }}")
		var want map[string]any
		if err := yaml.Unmarshal([]byte(part), &want); err != nil || len(want) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		delete(want, "fsGroupChangePolicy") // of volumes that stay
		delete(context, "sysctls")
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(context)
		if string(a) != string(b) {
			t.Errorf("%s: %s, the chart has %s", name, b, a)
		}
	}
}

// A pod that somebody else labels as one of the Job's, with a number that the Job does not have, is not taken for one.
func TestForeignPods(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("kubectl is a script here")
	}
	bin := t.TempDir()
	pods := ""
	for i, index := range []string{"-1", "2", "1", "0", "x"} {
		pods += fmt.Sprintf(`{"metadata": {"name": "p%d", "annotations": {"batch.kubernetes.io/job-completion-index": "%s"}}, `+
			`"status": {"containerStatuses": [{"state": {"running": {}}}]}},`, i, index)
	}
	script := fmt.Sprintf("#!/bin/sh\necho '{\"items\": [%s]}'\n", strings.TrimSuffix(pods, ","))
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	names, waits, err := (&Job{Name: "spate-x", Agents: 2}).look(t.Context())
	if err != nil || waits != "" || !slices.Equal(names, []string{"p3", "p2"}) {
		t.Errorf("%v, %q, %v", names, waits, err)
	}
}
