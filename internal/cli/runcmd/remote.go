package runcmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/engine"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// Times of agents on other machines. An agent that has lost its run ends by itself.
const (
	remoteAlone    = "10s"
	remotePause    = 300 * time.Millisecond
	remoteCheck    = 50 * time.Millisecond
	remoteStart    = 30 * time.Second // until an agent must have reached the coordinator
	remotePatience = time.Minute      // with a connection that does not come back
	remoteSteady   = 30 * time.Second // a connection that lasts so long has come back
	remoteFarewell = 10 * time.Second
)

// remoteHost is an agent of a run on another machine.
type remoteHost struct {
	name, region, login string // login: the machine, as a person wrote it
	labels              map[string]string
	weight              uint32
	by                  launcher
	program             string // how the program got there, in words
}

// launcher starts agents on machines of one kind.
type launcher interface {
	// prepare makes a host ready for its agent.
	prepare(ctx context.Context, r *remoteHosts, h *remoteHost) error
	// open starts an agent with its way to the coordinator here, or makes the way again. It blocks until that has
	// broken, and returns what was said, and whether the agent has ended. ctx ends some time after r.wanted, which asks
	// the agent to end.
	open(ctx context.Context, r *remoteHosts, h *remoteHost, again bool) (said string, ended bool)
	// close removes what agents have left, after their end.
	close(r *remoteHosts)
}

// remoteHosts are the machines of --on.
type remoteHosts struct {
	hosts   []*remoteHost
	labels  map[string]string // of all: those that the plan asks for
	asks    uint32            // requests in flight, at most; 0: not known
	probes  []string          // endpoints to which agents measure the round trip
	version string            // of this program
	logs    io.Writer
	serve   func(net.Listener, *certs.Authority) error // agents that join by an invitation
	dir     string                                     // of the coordinator's socket here
	id      string                                     // of the sockets there

	up     atomic.Bool             // all agents have reached the coordinator
	fail   context.CancelCauseFunc // of what waits for that
	wanted context.Context         // ends when the agents shall end, by end
	end    context.CancelFunc
	agents sync.WaitGroup
	giveUp context.CancelFunc // ends what starts them
}

// hostEntry is an entry of a file of hosts, or one of a value of --on.
type hostEntry struct {
	SSH, Kube, Slurm yaml.Node // where its agents run, as a person wrote it
	Region           string
	Labels           map[string]string
	Weight           uint32
}

// hostList is what parseHosts reads, and how often each name was wanted.
type hostList struct {
	hosts []*remoteHost
	names map[string]int
}

// parseHosts reads the values of --on: files of hosts, "user@host", several with commas between them, "kube:..." or
// "slurm:..."; all but files after "region=" if they have one, which holds up to the next one.
func parseHosts(values []string) ([]*remoteHost, error) {
	list := hostList{names: map[string]int{}}
	for _, value := range values {
		region, rest, given := strings.Cut(value, "=")
		if !given || strings.ContainsRune(region, ':') { // options have = too
			region, rest = "", value
		}
		entries, err := []hostEntry{}, error(nil)
		switch ext := filepath.Ext(value); {
		case strings.HasPrefix(rest, "kube:"):
			entries = []hostEntry{{Kube: yaml.Node{Value: rest[len("kube:"):]}, Region: region}}
		case strings.HasPrefix(rest, "slurm:"):
			entries = []hostEntry{{Slurm: yaml.Node{Value: rest[len("slurm:"):]}, Region: region}}
		case ext == ".yaml" || ext == ".yml":
			entries, err = readHosts(value)
		default:
			for login := range strings.SplitSeq(rest, ",") {
				if of, host, more := strings.Cut(login, "="); more { // eu=a,b,us=c
					region, login = strings.TrimSpace(of), host
				}
				entries = append(entries, hostEntry{SSH: yaml.Node{Value: strings.TrimSpace(login)}, Region: region})
			}
		}
		if err != nil {
			return nil, fmt.Errorf("--on %s: %w", value, err)
		}
		for _, e := range entries {
			where := value
			if line := max(e.SSH.Line, e.Kube.Line, e.Slurm.Line); line > 0 {
				where = fmt.Sprintf("%s:%d", value, line)
			}
			if err := list.add(e); err != nil {
				return nil, fmt.Errorf("--on %s: %w", where, err)
			}
		}
	}
	return list.hosts, nil
}

// readHosts reads a file of hosts.
func readHosts(path string) (entries []hostEntry, err error) {
	const most = 1 << 20
	text, err := files.ReadFile(path, most)
	if err == nil {
		err = files.YAML(text, &entries)
	}
	return entries, cmp.Or(err, reason.If(len(entries) == 0, "it names no host: want a list, such as - ssh: user@host"))
}

// add adds the hosts of an entry.
func (l *hostList) add(e hostEntry) error {
	for name, value := range e.Labels {
		if err := naming.CheckLabel(name, value); err != nil || name == naming.RegionLabel {
			return fmt.Errorf("labels: %q: %w", name, cmp.Or(err, errors.New("give region: beside labels")))
		}
	}
	if strings.ContainsAny(e.Region, forShells) || strings.HasPrefix(e.Region, "-") || naming.CheckRegion(e.Region) != nil {
		return fmt.Errorf("%q is not the name of a region", e.Region)
	}
	switch login, kube, slurm := e.SSH.Value, e.Kube.Value, e.Slurm.Value; {
	case len(login+kube+slurm) > max(len(login), len(kube), len(slurm)):
		return errors.New("it has two of ssh, kube and slurm: give one")
	case kube != "":
		return l.addPods(e)
	case slurm != "":
		return l.addTasks(e)
	}
	login := e.SSH.Value
	name := login[strings.LastIndexByte(login, '@')+1:]
	if name == "" || strings.HasPrefix(login, "-") || strings.ContainsAny(login, forShells) {
		return fmt.Errorf("%q is not a host: want [REGION=][USER@]HOST, several with commas between them", login)
	}
	l.addHost(e, l.name(name), login, &sshHost{login: login})
	return nil
}

// addHost adds a host.
func (l *hostList) addHost(e hostEntry, name, login string, by launcher) {
	l.hosts = append(l.hosts,
		&remoteHost{name: name, region: e.Region, login: login, labels: e.Labels, weight: e.Weight, by: by})
}

// name returns a name for an agent at a place that no other one has.
func (l *hostList) name(place string) string {
	name := cmp.Or(strings.Trim(unusableInName.ReplaceAllString(place, "-"), "-_"), "host")
	if l.names[name]++; l.names[name] > 1 {
		return fmt.Sprintf("%s-%d", name, l.names[name])
	}
	return name
}

// options returns what is before ? in a place, and what follows it, of which all names must be known.
func options(place string, known ...string) (before string, given url.Values, err error) {
	before, query, _ := strings.Cut(place, "?")
	given, err = url.ParseQuery(query)
	for name := range given {
		if !slices.Contains(known, name) {
			err = cmp.Or(err, fmt.Errorf("%q is not an option: want one of %s", name, strings.Join(known, ", ")))
		}
	}
	return before, given, err
}

// forShells mean something to shells.
const forShells = " \t\n'\"\\$;&|`<>(){}*?~#!"

// unusableInName is what names of places may have, and names of agents may not.
var unusableInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// byRegion returns how many agents each region has.
func byRegion[Agent any](agents []Agent, regionOf func(Agent) string) (all embedded) {
	for _, a := range agents {
		all = all.with(regionOf(a))
	}
	return all
}

// newRemoteHosts returns hosts and a listener for their agents: a socket that no other user of this machine can open.
func newRemoteHosts(hosts []*remoteHost, version string, logs io.Writer) (*remoteHosts, net.Listener, error) {
	dir, err := os.MkdirTemp("", "spate-on-") // only for this user
	if err != nil {
		return nil, nil, err
	}
	r := &remoteHosts{hosts: hosts, version: version, logs: logs, dir: dir, id: newID()}
	var lc net.ListenConfig
	listener, err := lc.Listen(context.Background(), "unix", r.coordinator())
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	r.wanted, r.end = context.WithCancel(context.Background())
	return r, listener, nil
}

// coordinator is the socket at which agents reach the coordinator.
func (r *remoteHosts) coordinator() string { return filepath.Join(r.dir, "coordinator") }

// start makes the hosts ready, starts their agents, and shows what they are. It blocks until there are as many agents
// as hosts.
func (r *remoteHosts) start(ctx context.Context, coordinator *grpc.ClientConn) error {
	running, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	r.giveUp = giveUp
	ctx, r.fail = context.WithCancelCause(ctx)
	group, preparing := errgroup.WithContext(ctx)
	for _, h := range r.hosts {
		group.Go(func() error {
			if err := h.by.prepare(preparing, r, h); err != nil {
				return fmt.Errorf("--on %s: %w", h.login, err)
			}
			r.agents.Go(func() { r.keep(running, h) })
			return nil
		})
	}
	if err := group.Wait(); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return command.BadInput(err)
	}
	there, err := r.await(ctx, spatev1.NewRunServiceClient(coordinator))
	if err == nil {
		r.up.Store(true)
		err = r.table(there).Write(r.logs, terminal.Width(r.logs))
	}
	for _, a := range there {
		if part, most := r.asks/uint32(len(there)), a.GetAgent().GetMaxStreams(); most > 0 && part > most {
			fmt.Fprintf(r.logs, "! %s has open files for %d requests in flight, and its part of the plan's is about %d: "+
				"raise its limit (ulimit -n), or add hosts\n", a.GetAgent().GetName(), most, part)
		}
	}
	return err
}

// await blocks until there are as many agents as hosts, whose clocks are known. An agent that ends before that ends the
// command.
func (r *remoteHosts) await(
	ctx context.Context, coordinator spatev1.RunServiceClient,
) (there []*spatev1.AgentStatus, err error) {
	tick, late := time.NewTicker(remoteCheck), time.After(remoteStart)
	defer tick.Stop()
	for len(there) < len(r.hosts) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late:
			return nil, fmt.Errorf("--on: %d of %d agents have reached this machine within %v", len(there), len(r.hosts), remoteStart)
		case <-tick.C:
			list, _ := coordinator.ListAgents(ctx, &spatev1.ListAgentsRequest{}) // asked again
			there = lists.Where(list.GetAgents(),
				func(a *spatev1.AgentStatus) bool { return a.GetHeartbeat().GetClockUncertaintyNs() > 0 })
		}
	}
	return there, nil
}

// table shows what the hosts are, as their agents say.
func (r *remoteHosts) table(there []*spatev1.AgentStatus) *table.Table {
	t := watch.Fleet(there)
	t.Columns = slices.Concat(t.Columns, table.Words("on", "program", "round trip"))
	slices.SortFunc(r.hosts, func(a, b *remoteHost) int { return strings.Compare(a.name, b.name) }) // as agents
	for i, h := range r.hosts {
		t.Rows[i].Add(h.login, h.program, r.roundTrip(there[i].GetAgent().GetRoundTripsMs()))
	}
	return t.Capitals()
}

// roundTrip says how far the endpoints are from an agent.
func (r *remoteHosts) roundTrip(ms map[string]float64) string {
	if len(ms) == 0 {
		return watch.Unknown
	}
	times := slices.Sorted(maps.Values(ms))
	text := words.Millis(times[0])
	if most := words.Millis(times[len(times)-1]); most != text {
		text += " to " + most
	}
	if text += " ms"; len(ms) < len(r.probes) {
		text += fmt.Sprintf(", %d of %d not reached", len(r.probes)-len(ms), len(r.probes))
	}
	return text
}

// arguments are those of the agent of a host, for this program. way is the flag for how it reaches the coordinator.
func (r *remoteHosts) arguments(h *remoteHost, way, name, alone string) []string {
	args := []string{"agent", "--log-level=warn", way, "--name=" + name, "--region=" + h.region,
		"--until-alone=" + alone}
	labels := map[string]string{}
	maps.Copy(labels, r.labels)
	maps.Copy(labels, h.labels)
	args = append(args, lists.Each(naming.LabelTexts(labels), func(label string) string { return "--label=" + label })...)
	if h.weight > 0 {
		args = append(args, fmt.Sprintf("--weight=%d", h.weight))
	}
	if len(r.probes) > 0 {
		args = append(args, "--probe="+strings.Join(r.probes, ","))
	}
	return args
}

// keep opens the way of an agent, and again each time that it breaks, until the agents shall end.
func (r *remoteHosts) keep(ctx context.Context, h *remoteHost) {
	before, good := "", time.Now()
	for again := false; ; again = true {
		began := time.Now()
		said, ended := h.by.open(ctx, r, h, again)
		if time.Since(began) > remoteSteady {
			before, good = "", time.Now()
		}
		switch {
		case r.wanted.Err() != nil:
			return
		case !r.up.Load() && ended:
			r.fail(command.BadInputf("--on %s: the agent has ended: %s", h.login, said))
			return
		case ended || time.Since(good) > remotePatience:
			fmt.Fprintf(r.logs, "The agent on %s has ended: %s\n", h.login, said)
			return
		case said != before && r.up.Load():
			fmt.Fprintf(r.logs, "The connection to %s broke (%s): trying again\n", h.login, said)
		}
		before = said
		select {
		case <-r.wanted.Done():
			return
		case <-time.After(remotePause):
		}
	}
}

// close ends the agents, and blocks until they have ended, or for 10 seconds.
func (r *remoteHosts) close() {
	r.end()
	_ = os.RemoveAll(r.dir) // connections stay
	late := time.AfterFunc(remoteFarewell, r.giveUp)
	r.agents.Wait()
	late.Stop()
	r.giveUp()
	for _, h := range r.hosts {
		h.by.close(r)
	}
}

// detached returns a command that the caller's interrupt does not reach: a run that is stopped still needs its agents.
func detached(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	engine.Alone(cmd)
	cmd.WaitDelay = time.Second
	return cmd
}

// newID returns a name for what must not meet another command's.
func newID() string { return strings.ToLower(rand.Text()[:8]) }
