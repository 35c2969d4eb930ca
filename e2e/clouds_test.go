package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/simulator/config"
)

const cloudsPlan = `
name: clouds
targets:
  - {name: signed, endpoints: [%[1]q], model: "anthropic.claude-v1:0", api: bedrock, api_key: "file:%[2]s"}
  - {name: gemini, endpoints: [%[1]q], model: gemini-2.5-flash, api: gemini, api_key: "file:%[2]s"}
workloads: [{random: {isl: 30, osl: 6}}]
loads: [{concurrency: [3], requests: 20}]
`

// The programs test Bedrock with signed requests and binary streams, and Gemini. The simulator checks the signatures,
// and was written independently.
func TestClouds(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.AWSSecret = "wJalrXUtnFEMI/K7MDENG"
	server := serve(t, c)
	key := filepath.Join(t.TempDir(), "key")
	for _, secret := range []string{c.AWSSecret, "another secret"} {
		if err := os.WriteFile(key, []byte("AKIDEXAMPLE:"+secret), 0o600); err != nil {
			t.Fatal(err)
		}
		r := programs.RunPlan(t, fmt.Sprintf(cloudsPlan, server.URLs()[0], key))
		if code := r.Exit(); (code == 0) != (secret == c.AWSSecret) {
			t.Fatalf("the key %s: exit %d: %s", secret, code, r.Stderr.String())
		}
		for _, s := range r.Results().Stages {
			refused := s.Target == "signed" && secret != c.AWSSecret
			if (s.Requests.Failed > 0) != refused || (s.Requests.Completed == 20) == refused {
				t.Errorf("%s with the key %s: %+v, %v", s.Target, secret, s.Requests, s.ErrorExamples)
			}
			if !refused && (s.OSL.Missed > 0 || s.ISL.Missed > 0) {
				t.Errorf("%s: %d prompts and %d outputs of another length than asked", s.Target, s.ISL.Missed, s.OSL.Missed)
			}
		}
	}
}
