package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Job is agents that are started as a Kubernetes Job, each in a pod of its own.
type Job struct {
	// Target has the context and the namespace.
	Target *spatev1.KubernetesTarget
	// Name of the Job.
	Name string
	// Agents is the number of its pods.
	Agents int
	// Image of the pods, and what each of them needs, in Kubernetes' words.
	Image, CPU, Memory string
	// NodeSelector says which nodes they may be on. Nil: any.
	NodeSelector map[string]string
	// Args are those of the program in each pod; $(JOB_COMPLETION_INDEX) in them is the number of the pod, from 0.
	Args []string
	// Token is in its environment.
	Token string
}

//go:embed job.yaml
var jobYAML string

var jobTemplate = template.Must(template.New("job").Funcs(template.FuncMap{"json": func(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}}).Parse(jobYAML))

// Start creates the Job, and blocks until all of its pods run. It returns their names, by number. say hears what it
// waits for. The caller must call Remove, also after an error.
func (j *Job) Start(ctx context.Context, say func(text string)) ([]string, error) {
	var manifest bytes.Buffer
	if err := jobTemplate.Execute(&manifest, j); err != nil {
		return nil, err
	}
	if _, err := kubectl(ctx, j.Target, &manifest, "apply", "--filename=-"); err != nil {
		return nil, err
	}
	tick, late, before := time.NewTicker(podCheck), time.After(podPatience), ""
	defer tick.Stop()
	for {
		pods, waits, err := j.look(ctx)
		if err != nil || waits == "" {
			return pods, err
		}
		if waits != before {
			say(waits)
			before = waits
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late:
			return nil, fmt.Errorf("not all pods run after %v: %s", podPatience, waits)
		case <-tick.C:
		}
	}
}

const (
	podCheck    = 500 * time.Millisecond
	podPatience = 5 * time.Minute // a cluster may have to add a node
)

// state returns what a pod waits for, nothing if it runs, or why it does not get to run.
func (p *pod) state() (waits string, err error) {
	waits = "pod " + p.Metadata.Name + " is " + strings.ToLower(p.Status.Phase)
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			waits += ": " + c.Message
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		for state, is := range c.State {
			switch {
			case state == "running":
				return "", nil
			case state == "terminated" || is.Reason != "ContainerCreating":
				return "", errors.New(words.Joined(": ", "pod "+p.Metadata.Name+" does not run", is.Reason, is.Message))
			}
		}
	}
	return waits, nil
}

// look returns the pods by number, and what some of them wait for.
func (j *Job) look(ctx context.Context) (names []string, waits string, err error) {
	var list struct{ Items []pod }
	if err := get(ctx, j.Target, &list, "pods", "--selector=job-name="+j.Name); err != nil {
		return nil, "", err
	}
	names = make([]string, j.Agents)
	for _, p := range list.Items {
		wait, err := p.state()
		if err != nil {
			return nil, "", err
		}
		i, err := strconv.Atoi(p.Metadata.Annotations["batch.kubernetes.io/job-completion-index"])
		if err == nil && i >= 0 && i < j.Agents { // anybody could label a pod
			names[i] = p.Metadata.Name
		}
		waits = cmp.Or(waits, wait)
	}
	if !slices.Contains(names, "") {
		return names, waits, nil
	}
	var events struct{ Items []struct{ Message string } }
	refused := get(ctx, j.Target, &events, "events", "--field-selector=type=Warning,involvedObject.name="+j.Name)
	if n := len(events.Items); refused == nil && n > 0 { // who may not see events waits
		return nil, "", errors.New(events.Items[n-1].Message)
	}
	return nil, "the pods are being made", nil
}

// Forward returns a command that forwards a free port of this machine's loopback to a port of a pod, until it is ended.
// It prints "Forwarding from ADDRESS -> PORT" first.
func (j *Job) Forward(name, port string) []string {
	return append([]string{"kubectl"}, arguments(j.Target, "port-forward", "pod/"+name, ":"+port, "--address=127.0.0.1")...)
}

// Remove removes the Job with its pods. It continues if this program ends meanwhile.
func (j *Job) Remove() error {
	_, err := kubectl(context.Background(), j.Target, nil, "delete", "job", j.Name, "--ignore-not-found", "--wait=false")
	return err
}
