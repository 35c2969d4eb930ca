package runcmd

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kubernetes"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// kubePort is where an agent in a pod listens, on the pod's loopback.
const kubePort = "7799"

// kubeAlone is for how long an agent in a pod waits for this machine, which waits for all pods.
const kubeAlone = "6m"

// kubeAgents are the agents of a Job.
type kubeAgents struct {
	job              kubernetes.Job
	pods             []string // by number
	err              error    // of their start
	started, removed sync.Once
}

// kubePod is one of these agents.
type kubePod struct {
	*kubeAgents
	number int
}

// addPods adds the agents of an entry with kube.
func (l *hostList) addPods(e hostEntry) error {
	at, given, err := options(e.Kube.Value, "agents", "region", "image", "cpu", "memory", "node-selector")
	agents, wrong := strconv.Atoi(cmp.Or(given.Get("agents"), "1"))
	nodes, wrongNodes := naming.Labels(given["node-selector"])
	slash := strings.LastIndexByte(at, '/') // names of contexts have slashes, too
	err = cmp.Or(err, wrong, wrongNodes,
		reason.If(slash < 0, "%q does not say where: want kube:CONTEXT/NAMESPACE?agents=N&image=IMAGE; either name may be empty", at),
		reason.If(agents < 1 || agents > 1000, "agents=%d: want 1 to 1000", agents),
		reason.If(given.Get("image") == "", "give image=REPOSITORY[:TAG], of a release or of deployments/docker/Dockerfile"))
	if err != nil {
		return err
	}
	cluster := &spatev1.KubernetesTarget{Context: at[:slash], Namespace: at[slash+1:]}
	k := &kubeAgents{job: kubernetes.Job{Target: cluster, Name: "spate-" + newID(), Agents: agents, Image: given.Get("image"), CPU: cmp.Or(given.Get("cpu"), "4"),
		Memory: cmp.Or(given.Get("memory"), "4Gi"), NodeSelector: nodes, Token: rand.Text()}}
	e.Region = cmp.Or(e.Region, given.Get("region"))
	name := l.name("kube/" + at)
	for i := range agents {
		l.addHost(e, fmt.Sprintf("%s-%d", name, i), "kube:"+at, kubePod{k, i})
	}
	return nil
}

// prepare starts the Job, for all its agents.
func (k kubePod) prepare(ctx context.Context, r *remoteHosts, h *remoteHost) error {
	k.started.Do(func() {
		if !strings.ContainsAny(k.job.Image[strings.LastIndexByte(k.job.Image, '/')+1:], ":@") {
			k.job.Image += ":" + r.version
		}
		name := strings.TrimSuffix(h.name, strconv.Itoa(k.number)) + "$(JOB_COMPLETION_INDEX)"
		k.job.Args = append(r.arguments(h, "--coordinator=listen:"+kubePort, name, kubeAlone), "--dataset-dir=/var/cache/spate")
		k.pods, k.err = k.job.Start(ctx, func(text string) { fmt.Fprintf(r.logs, "%s: %s\n", h.login, text) })
	})
	h.program = k.job.Image
	return k.err
}

// spare is how many connections to an agent are kept for when it wants one.
const spare = 2

var forwarded = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) -> `)

// open makes the way to an agent: a port of this machine's loopback that kubectl forwards.
func (k kubePod) open(_ context.Context, r *remoteHosts, _ *remoteHost, _ bool) (said string, ended bool) {
	ctx, end := context.WithCancel(r.wanted)
	defer end()
	cmd := detached(ctx, k.job.Forward(k.pods[k.number], kubePort)...)
	problems := &bytes.Buffer{}
	cmd.Stderr = problems
	out, err := cmd.StdoutPipe()
	if err = cmp.Or(err, cmd.Start()); err != nil {
		return err.Error(), true
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() { // others tell each connection
		if address := forwarded.FindStringSubmatch(lines.Text()); address != nil {
			for range spare {
				go r.join(ctx, address[1], k.job.Token)
			}
		}
	}
	err = cmd.Wait()
	said = cmp.Or(words.LastLine(problems.String()), fmt.Sprint(err))
	return said, strings.Contains(said, "pod is not running") || strings.Contains(said, "(NotFound)")
}

// close removes the Job.
func (k kubePod) close(r *remoteHosts) {
	k.removed.Do(func() {
		if err := k.job.Remove(); err != nil && k.err == nil {
			fmt.Fprintf(r.logs, "The Job %s was not removed (its pods end by themselves): %v\n", k.job.Name, err)
		}
	})
}

// join keeps a connection to an agent at an address, and connects it to the coordinator when the agent uses it, again
// and again until ctx ends.
func (r *remoteHosts) join(ctx context.Context, address, token string) {
	for ctx.Err() == nil {
		if err := r.joinOne(ctx, address, token); err != nil {
			clock.Sleep(ctx, remotePause)
		}
	}
}

func (r *remoteHosts) joinOne(ctx context.Context, address, token string) (err error) {
	var d net.Dialer
	agent, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = agent.Close() })
	first := make([]byte, 1) // the agent speaks first
	if _, err = io.WriteString(agent, token); err == nil {
		_, err = io.ReadFull(agent, first)
	}
	var coordinator net.Conn
	if err == nil {
		coordinator, err = d.DialContext(ctx, "unix", r.coordinator())
	}
	if err != nil {
		stop()
		return errors.Join(err, agent.Close())
	}
	carry := func(to, from net.Conn, before []byte) {
		defer stop()
		_, _ = to.Write(before)
		_, _ = io.Copy(to, from) // an end of either is the end of the connection
		_, _ = to.Close(), from.Close()
	}
	go carry(coordinator, agent, first)
	go carry(agent, coordinator, nil)
	return nil
}
