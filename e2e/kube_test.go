//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// kubectlState is where a stand-in for kubectl keeps what the clusters have. With it in the environment this test's own
// program is the stand-in: it starts the pods' programs here, and forwards ports on loopback. The clusters' names say
// what is wrong with them, in the words of kubectl 1.32 and of Kubernetes.
const kubectlState = "SPATE_TEST_KUBECTL"

func init() {
	if dir := os.Getenv(kubectlState); dir != "" {
		if err := standInKubectl(dir, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// podState is a pod of the stand-in.
type podState struct {
	Name, Cluster string
	Index         int
	PID           pid
	Port          string // in place of the one that its program was told to listen at
}

func standInKubectl(dir string, args []string) error {
	cluster, namespace := "", ""
	for _, a := range args {
		if v, is := strings.CutPrefix(a, "--context="); is {
			cluster = v
		}
		if v, is := strings.CutPrefix(a, "--namespace="); is {
			namespace = v
		}
	}
	what := strings.Join(args, " ")
	switch {
	case cluster == "gone":
		return fmt.Errorf("error: context %q does not exist", cluster)
	case args[0] == "apply" && cluster == "forbidden":
		return fmt.Errorf(`Error from server (Forbidden): error when creating "STDIN": jobs.batch is forbidden: User "jane" cannot create resource "jobs" in API group "batch" in the namespace %q`, namespace)
	case args[0] == "apply":
		return applyJob(dir, cluster)
	case strings.HasPrefix(what, "get --output=json pods"):
		return listPods(dir, strings.TrimPrefix(args[3], "--selector=job-name="))
	case strings.HasPrefix(what, "get --output=json pod "):
		for _, p := range pods(dir, "") {
			if p.Name == args[3] {
				return json.NewEncoder(os.Stdout).Encode(p.object())
			}
		}
		return fmt.Errorf("Error from server (NotFound): pods %q not found", args[3])
	case strings.HasPrefix(what, "get --output=json events"):
		text := `{"items": []}`
		if cluster == "quota" {
			text = `{"items": [{"message": "Error creating: pods \"x-0-abcde\" is forbidden: exceeded quota: compute, requested: limits.cpu=4, used: limits.cpu=8, limited: limits.cpu=8"}]}`
		}
		fmt.Println(text)
		return nil
	case args[0] == "port-forward":
		return forward(dir, strings.TrimPrefix(args[1], "pod/"))
	case args[0] == "delete":
		for _, p := range pods(dir, args[2]) {
			p.PID.kill(syscall.SIGTERM)
		}
		return os.RemoveAll(filepath.Join(dir, args[2]))
	}
	return fmt.Errorf("the stand-in does not know %q", args)
}

// applyJob starts the programs of a Job's pods.
func applyJob(dir, cluster string) error {
	var job struct {
		Metadata struct{ Name string }
		Spec     struct {
			Completions int
			Template    struct {
				Spec struct {
					Containers []struct {
						Args []string
						Env  []struct{ Name, Value string }
					}
				}
			}
		}
	}
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = yaml.Unmarshal(text, &job)
	}
	if err != nil {
		return err
	}
	own := filepath.Join(dir, job.Metadata.Name)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), text, 0o600); err != nil || cluster == "quota" {
		return err
	}
	container := job.Spec.Template.Spec.Containers[0]
	for i := range job.Spec.Completions {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		p := podState{Name: fmt.Sprintf("%s-%d-abcde", job.Metadata.Name, i), Cluster: cluster, Index: i}
		_, p.Port, _ = net.SplitHostPort(l.Addr().String())
		_ = l.Close()
		if cluster != "full" && cluster != "noimage" {
			args := strings.Join(container.Args, "\n")
			args = strings.ReplaceAll(args, "$(JOB_COMPLETION_INDEX)", strconv.Itoa(i))
			args = regexp.MustCompile(`listen:\d+`).ReplaceAllString(args, "listen:"+p.Port)
			args = regexp.MustCompile(`--dataset-dir=\S+`).ReplaceAllString(args, "--dataset-dir="+own)
			cmd := exec.Command(os.Getenv("SPATE_TEST_PROGRAM"), strings.Split(args, "\n")...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			for _, e := range container.Env {
				if e.Value != "" {
					cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
				}
			}
			if cmd.Stderr, err = os.Create(filepath.Join(own, p.Name+".log")); err != nil {
				return err
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			p.PID = pid(cmd.Process.Pid)
		}
		text, _ := json.Marshal(p)
		if err := os.WriteFile(filepath.Join(own, p.Name+".json"), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pods returns the pods of a Job, or of all.
func pods(dir, job string) (all []podState) {
	if job == "" {
		job = "*"
	}
	paths, _ := filepath.Glob(filepath.Join(dir, job, "*.json"))
	for _, path := range paths {
		var p podState
		text, _ := os.ReadFile(path)
		if json.Unmarshal(text, &p) == nil {
			all = append(all, p)
		}
	}
	return all
}

// alive reports whether a pod's program runs.
func (p podState) alive() bool { return p.PID.alive() }

// object returns a pod as the API server has it.
func (p podState) object() map[string]any {
	status := map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": "agent",
		"state": map[string]any{"running": map[string]any{"startedAt": "2026-11-29T22:00:00Z"}}}}}
	switch {
	case p.Cluster == "full":
		status = map[string]any{"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False",
			"reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."}}}
	case p.Cluster == "noimage":
		status = map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{"name": "agent", "state": map[string]any{
			"waiting": map[string]any{"reason": "ErrImagePull", "message": `failed to pull and unpack image "docker.io/library/spate:v9": pull access denied`}}}}}
	case !p.alive():
		status = map[string]any{"phase": "Failed", "containerStatuses": []any{map[string]any{"name": "agent", "state": map[string]any{
			"terminated": map[string]any{"reason": "OOMKilled", "exitCode": 137}}}}}
	}
	return map[string]any{"metadata": map[string]any{"name": p.Name,
		"annotations": map[string]string{"batch.kubernetes.io/job-completion-index": strconv.Itoa(p.Index)}}, "status": status}
}

func listPods(dir, job string) error {
	items := []any{}
	for _, p := range pods(dir, job) {
		items = append(items, p.object())
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"kind": "List", "items": items})
}

// forward forwards a port of loopback, and ends as kubectl does when the other end refuses a connection.
func forward(dir, name string) error {
	all := pods(dir, "")
	i := slices.IndexFunc(all, func(p podState) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("Error from server (NotFound): pods %q not found", name)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	pid(os.Getpid()).keep(dir, "forward")
	fmt.Printf("Forwarding from %s -> 7799\n", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		fmt.Println("Handling connection for", l.Addr())
		to, err := net.Dial("tcp", "127.0.0.1:"+all[i].Port)
		if err != nil {
			return fmt.Errorf("error: lost connection to pod")
		}
		go func() { _, _ = io.Copy(to, c); _ = to.Close(); _ = c.Close() }()
		go func() { _, _ = io.Copy(c, to); _ = to.Close(); _ = c.Close() }()
	}
}

// withKubectl puts the stand-in into PATH and returns its state.
func withKubectl(t *testing.T) (dir string) {
	t.Helper()
	dir = withStandIn(t, "kubectl", kubectlState)
	t.Cleanup(func() {
		for _, p := range pods(dir, "") {
			p.PID.kill(syscall.SIGKILL)
		}
	})
	return dir
}

// withStandIn puts this test's own program into PATH under another name, and returns its state, which a variable names.
func withStandIn(t *testing.T, name, variable string) (dir string) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	inPath(t, name, fmt.Sprintf("#!/bin/sh\n%s='%s' SPATE_TEST_PROGRAM='%s' exec '%s' \"$@\"\n", variable, dir,
		programs.Built.Spate, own))
	return dir
}

// pid is a process of a stand-in, or one that it started.
type pid int

// alive reports whether a process runs. One that has ended may be a zombie.
func (p pid) alive() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil {
		return syscall.Kill(int(p), 0) == nil
	}
	return !strings.Contains(string(text), ") Z ")
}

func (p pid) kill(s syscall.Signal) {
	if p > 0 {
		_ = syscall.Kill(int(p), s)
	}
}

// keep notes a process of a kind in a stand-in's state, where pidsIn finds it.
func (p pid) keep(dir, kind string) {
	_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s", p, kind)), nil, 0o600)
}

// pidsIn returns the processes of a kind.
func pidsIn(dir, kind string) (all []pid) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*."+kind))
	for _, path := range paths {
		p, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), "."+kind))
		all = append(all, pid(p))
	}
	return all
}

// left returns the Jobs of the stand-in that there are.
func left(t *testing.T, dir string) (jobs []string) {
	jobs, err := filepath.Glob(filepath.Join(dir, "spate-*"))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// TestOnKubernetes: --on kube: starts agents as a Job, reaches them by forwarded ports, again if these break, and
// removes them, in several clusters at once.
func TestOnKubernetes(t *testing.T) {
	dir := withKubectl(t)
	url := programs.Simulate(t, 1).URLs[0]
	args := []string{"run", "--target", url, "--model", "simulated", "--concurrency", "6", "--isl", "20", "--osl", "20", "--duration", "12s",
		"--on", "eu=kube:prod/load?agents=2&image=spate&cpu=2&node-selector=pool=load", "--on", "kube:/other?region=us&image=r/spate:v1", "--out", "out"}
	p := process.Start(t, programs.Built.Spate, args...)
	p.Await(`in flight .* done`)
	was := pods(dir, "")
	if len(was) != 3 {
		t.Errorf("pods %v", was)
	}
	for _, f := range pidsIn(dir, "forward") {
		f.kill(syscall.SIGKILL)
	}
	p.MustExit(0)
	said := p.Printed()
	for _, want := range []string{`kube-prod-load-0 +eu .* kube:prod/load +spate:`, `kube-prod-load-1 +eu `, `kube-other-0 +us .* r/spate:v1`, `trying again`} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
	if strings.Contains(said, "PARTIAL") || len(left(t, dir)) > 0 {
		t.Errorf("left %v, said\n%s", left(t, dir), said)
	}
	process.Eventually(t, "the agents end", func() bool {
		return !slices.ContainsFunc(was, podState.alive)
	})
}

// runOn is a run that has nothing to send to, but for the place where its agents are.
var runOn = []string{"run", "--target", "http://127.0.0.1:1", "--model", "m", "--concurrency", "1", "--requests", "1", "--on"}

// mustRefuse fails the test unless each place ends the command as a mistake, and the message matches its pattern.
func mustRefuse(t *testing.T, wants map[string]string) {
	t.Helper()
	for _, on := range slices.Sorted(maps.Keys(wants)) {
		p := process.Start(t, programs.Built.Spate, append(runOn, on)...)
		p.MustExit(2)
		if said := p.Printed(); !regexp.MustCompile(wants[on]).MatchString(said) {
			t.Errorf("%s: want %s, got\n%s", on, wants[on], said)
		}
	}
}

// What a cluster refuses is said in its own words, and nothing is left.
func TestOnKubernetesInVain(t *testing.T) {
	dir := withKubectl(t)
	mustRefuse(t, map[string]string{
		"kube:gone/load?image=i":      `--on kube:gone/load: kubectl apply --filename=- .*: error: context "gone" does not exist`,
		"kube:forbidden/load?image=i": `Forbidden\): .* User "jane" cannot create resource "jobs"`,
		"kube:quota/load?image=i":     `exceeded quota: compute, requested: limits.cpu=4`,
		"kube:noimage/load?image=i":   `pod spate-\w+-0-abcde does not run: ErrImagePull: failed to pull .*: pull access denied`,
		"kube:prod?image=i":           `"prod" does not say where: want kube:CONTEXT/NAMESPACE`,
		"kube:prod/load":              `give image=REPOSITORY`,
		"kube:p/l?image=i&agent=3":    `"agent" is not an option: want one of agents, region,`,
		"kube:p/l?image=i&agents=0":   `agents=0: want 1 to 1000`,
	})
	p := process.Start(t, programs.Built.Spate, append(runOn, "kube:full/load?agents=2&image=i")...)
	p.Await(`pod spate-\w+-0-abcde is pending: 0/3 nodes are available: 3 Insufficient cpu`)
	p.Signal(syscall.SIGINT)
	p.MustExit(4)
	process.Eventually(t, "the Jobs are removed", func() bool { return len(left(t, dir)) == 0 })
}
