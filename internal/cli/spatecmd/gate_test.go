package spatecmd

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const gatedPlan = `name: gated
targets:
  - name: t
    simulator: {decode_step: 1ms}
workloads:
  - random: {isl: 10, osl: 3}
loads:
  - {concurrency: [2], requests: 20}
thresholds:
  - requests.completed >= baseline
`

// step is a step of a workflow of GitHub.
type step struct {
	Name string `yaml:"name"`
	If   string `yaml:"if"`
	Run  string `yaml:"run"`
}

// commands returns the commands of the example of a workflow, by the event that they run at.
func commands(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../../deployments/ci/gate.yml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct{ Steps []step } `yaml:"jobs"`
	}
	if err := yaml.Unmarshal(data, &workflow); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, s := range workflow.Jobs["gate"].Steps {
		if s.Run != "" {
			found[s.If] = s.Run
		}
	}
	return found
}

// TestWorkflow runs the commands of deployments/ci/gate.yml as they are written: first those of a push, which store the
// baseline, then those of a pull request. A busy machine may make the second run worse, which is an answer.
func TestWorkflow(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(gatedPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	run := commands(t)
	for _, event := range []string{"push", "pull_request"} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", run["github.event_name == '"+event+"'"])
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SPATE_FAIL_ON=never", "GITHUB_STEP_SUMMARY="+filepath.Join(dir, event+".md"))
		out, _ := cmd.CombinedOutput() // the exit code says it
		if code := cmd.ProcessState.ExitCode(); code != 0 && (event == "push" || code != 5) {
			t.Fatalf("%s: exit code %d\n%s", event, code, out)
		}
		for _, name := range []string{"spate.xml", event + ".md", "run/report.md", "baseline/results.json"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: %v\n%s", event, err, out)
			}
		}
		tests := 3
		if event == "pull_request" {
			tests = 5 // with the comparison and its stage
		}
		checkJUnit(t, filepath.Join(dir, "spate.xml"), tests)
		if event == "pull_request" && !strings.Contains(string(out), "Change against the baseline") {
			t.Errorf("it was not compared with the baseline:\n%s", out)
		}
		if err := os.RemoveAll(filepath.Join(dir, "run")); err != nil {
			t.Fatal(err)
		}
	}
}

// checkJUnit checks that a file has a case for the run, the stage, and each threshold.
func checkJUnit(t *testing.T, path string, want int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var root struct {
		Tests int `xml:"tests,attr"`
	}
	if err := xml.Unmarshal(data, &root); err != nil || root.Tests != want {
		t.Errorf("%d tests, want %d, %v in\n%s", root.Tests, want, err, data)
	}
}
