package deployments

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/plans"
)

// programs returns the paths of Spate's programs by their installed names.
func programs(t *testing.T) map[string]string {
	t.Helper()
	built, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"spate": built.Spate, "spate-coordinator": built.Coordinator, "spate-agent": built.Agent}
	for _, program := range all {
		static(t, program)
	}
	return all
}

// static checks that a program needs no loader and no library: the image has neither.
func static(t *testing.T, program string) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is linked dynamically: %v", filepath.Base(program), p.Type)
		}
	}
}

// takes checks that a program accepts all of the flags: it parses them before it prints its help.
func takes(t *testing.T, where, program string, args ...string) {
	t.Helper()
	command := exec.Command(program, append(args, "--help-all")...)
	command.Dir = t.TempDir()
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("%s: %s %s: %v\n%s", where, filepath.Base(program), strings.Join(args, " "), err, said)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// service is the tested part of a service in compose.yaml.
type service struct {
	Image       string
	Entrypoint  []string
	Command     []string
	Environment map[string]string
	Volumes     []string
	DependsOn   map[string]any `yaml:"depends_on"`
}

// composed returns the services of compose.yaml.
func composed(t *testing.T) map[string]service {
	t.Helper()
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal([]byte(read(t, "compose/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// The command lines of all deployments use only flags that their programs have.
func TestProgramsTakeTheFlags(t *testing.T) {
	bin := programs(t)
	seen := 0
	for name, s := range composed(t) {
		if !strings.HasPrefix(s.Image, "spate:") {
			continue
		}
		program := "spate"
		if len(s.Entrypoint) > 0 {
			program = filepath.Base(s.Entrypoint[0])
		}
		takes(t, "compose.yaml, "+name, bin[program], s.Command...)
		seen++
	}
	if seen != 6 {
		t.Errorf("%d services of Spate in compose.yaml, want 6", seen)
	}
	flag := regexp.MustCompile(`(?m)(?:^ *- |\s)(--[a-z][a-z-]+)(=?)`)
	for file, program := range map[string]string{
		"systemd/spate-coordinator.service": "spate-coordinator", "systemd/spate-agent@.service": "spate-agent",
		"helm/spate/templates/coordinator.yaml": "spate-coordinator", "helm/spate/templates/agents.yaml": "spate-agent",
	} {
		text := withoutComments(read(t, file))
		if strings.Contains(text, "${CREDENTIALS_DIRECTORY}") != strings.Contains(text, "LoadCredential=") {
			t.Errorf("%s: credentials that are loaded are not those that are used", file)
		}
		flags := flag.FindAllStringSubmatch(text, -1)
		for _, match := range flags {
			known(t, file, bin[program], match[1])
		}
		if len(flags) < 2 {
			t.Errorf("%s: flags %v", file, flags)
		}
	}
	for _, match := range flag.FindAllStringSubmatch(read(t, "helm/spate/templates/_helpers.tpl"), -1) {
		known(t, "helm", bin["spate-coordinator"], match[1])
		known(t, "helm", bin["spate-agent"], match[1])
	}
}

// known checks that a flag is in a program's help.
func known(t *testing.T, where, program, flag string) {
	t.Helper()
	said, err := exec.Command(program, "--help-all").Output()
	if err != nil || !strings.Contains(string(said), flag+" ") {
		t.Errorf("%s: %s has no %s (%v)", where, filepath.Base(program), flag, err)
	}
}

func withoutComments(text string) string {
	return regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(text, "")
}

// Files that containers mount exist, and so do the services that they wait for.
func TestComposeFitsTogether(t *testing.T) {
	services := composed(t)
	for name, s := range services {
		for _, volume := range s.Volumes {
			if source, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(source, ".") {
				if _, err := os.Stat(filepath.Join("compose", source)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		for other := range s.DependsOn {
			if _, ok := services[other]; !ok {
				t.Errorf("%s waits for %s, which is not there", name, other)
			}
		}
	}
	plan, err := plans.Load("compose/plan.yaml", []byte(read(t, "compose/plan.yaml")), plans.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range plan.Proto().GetTargets() {
		for _, endpoint := range target.GetEndpoints() {
			host, port, _ := strings.Cut(strings.TrimPrefix(endpoint, "http://"), ":")
			if !strings.Contains(fmt.Sprint(services[host].Command), "0.0.0.0:"+port) {
				t.Errorf("nothing serves %s", endpoint)
			}
		}
	}
}

// Grafana finds the dashboards where they are mounted, and the environment has all variables of the data source.
func TestGrafanaIsProvisioned(t *testing.T) {
	grafana := composed(t)["grafana"]
	provider, source := read(t, "grafana/provisioning/dashboards/spate.yaml"),
		read(t, "grafana/provisioning/datasources/spate.yaml")
	if !strings.Contains(provider, "path: /etc/spate/dashboards\n") ||
		!strings.Contains(fmt.Sprint(grafana.Volumes), ":/etc/spate/dashboards:ro") {
		t.Errorf("dashboards are mounted by %v", grafana.Volumes)
	}
	for _, match := range regexp.MustCompile(`(?m): \$([A-Z_]+)$`).FindAllStringSubmatch(source, -1) {
		if grafana.Environment[match[1]] == "" {
			t.Errorf("the data source wants %s, which Grafana is not given", match[1])
		}
	}
	files, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		for _, match := range regexp.MustCompile(`"type": "influxdb",\s+"uid": "(.*)"`).FindAllStringSubmatch(read(t, file), -1) {
			if match[1] != "${datasource}" {
				t.Errorf("%s asks %s, which another Grafana has not", file, match[1])
			}
		}
	}
}

// The data source for InfluxDB 2 has the query language of the dashboards, with a token in place of a user.
func TestGrafanaOverInfluxDB2(t *testing.T) {
	one, two := read(t, "grafana/provisioning/datasources/spate.yaml"),
		read(t, "grafana/provisioning-influxdb2/datasources/spate.yaml")
	for _, line := range []string{"version: InfluxQL", "dbName: $SPATE_INFLUX_DATABASE",
		"timeInterval: 1s"} {
		if !strings.Contains(one, line) || !strings.Contains(two, line) {
			t.Errorf("%q is not in both", line)
		}
	}
	if strings.Contains(two, "user:") || !strings.Contains(two, "httpHeaderName1: Authorization") ||
		!strings.Contains(two, "httpHeaderValue1: Token $") {
		t.Error("it does not send the token as InfluxDB 2 wants it")
	}
}

// The plans in the runbook are valid.
func TestRunbookPlansAreValid(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "../docs/multi-region.md"), -1)
	for _, block := range blocks {
		if _, err := plans.Load("multi-region.md", []byte(block[1]), plans.Options{}); err != nil {
			t.Error(err)
		}
	}
	if len(blocks) == 0 {
		t.Error("the runbook shows no plan")
	}
}
