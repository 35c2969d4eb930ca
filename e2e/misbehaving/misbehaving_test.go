package misbehaving

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

const (
	// perEndpoint is how many requests each endpoint gets: the second one shows what the first left behind.
	perEndpoint = 2
	// soundEvery: one of that many endpoints is healthy.
	soundEvery = 6
	// mostMemory is the limit of an agent's memory, in KiB: it collects no garbage before there are 256 MiB of it.
	mostMemory = 400 << 10
	// prefill and step are the times of a healthy server.
	prefill, step = 20 * time.Millisecond, 5 * time.Millisecond
)

// server is one endpoint of a target, with a fault or healthy.
type server struct {
	*endpoint
	fault *fault // nil: it is healthy

	mu    sync.Mutex
	spans map[uint64]span // of a healthy server's answers, by the index of the request
}

// span bounds how long a valid stream took from its first word to its last. The server does not know when within a
// write the kernel took the word.
type span struct{ least, most time.Duration }

// target is a target of the plan.
type target struct {
	name    string
	api     api
	servers []*server
}

// newTarget starts a healthy server, and then the faulty ones with healthy servers among them.
func newTarget(t *testing.T, a api, name, trap string, secure *tls.Config, faults []fault) *target {
	target := &target{name: name, api: a}
	add := func(f *fault) {
		s := &server{fault: f, spans: map[uint64]span{}}
		s.endpoint = serve(t, secure, func(w *wire) {
			w.trap = trap
			switch {
			case f == nil:
				answering(func(w *wire) { s.answer(w, a) })(w)
			case f.handle != nil:
				f.handle(w, a)
			default:
				answering(func(w *wire) { f.answer(w, a) })(w)
			}
		})
		target.servers = append(target.servers, s)
	}
	for i := range faults {
		if i%(soundEvery-1) == 0 {
			add(nil)
		}
		if f := &faults[i]; f.apis == nil || f.apis(a) {
			add(f)
		}
	}
	return target
}

// answer sends a valid answer, token by token.
func (s *server) answer(w *wire, a api) {
	w.send(chunkedHead + chunk(a.lead))
	time.Sleep(prefill)
	var before, after [2]time.Time // of the first and the last word
	for i, word := range words {
		if i > 0 {
			time.Sleep(step)
		}
		before[min(i, 1)] = time.Now()
		w.send(chunk(a.token(i, word)))
		after[min(i, 1)] = time.Now()
	}
	// A request without an index is not part of the load. The rest of the answer ends the request; then its span must
	// exist.
	if index, err := strconv.ParseUint(w.id[strings.LastIndexByte(w.id, '-')+1:], 16, 64); err == nil {
		s.mu.Lock()
		s.spans[index] = span{before[1].Sub(after[0]), after[1].Sub(before[0])}
		s.mu.Unlock()
	}
	w.send(chunk(a.tail("length", a.truth())+a.mark("length", a.truth())) + lastChunk)
}

// plan returns the plan of a run against all targets.
func plan(targets []*target, settings string) string {
	var b strings.Builder
	most := 0
	b.WriteString("name: misbehaving\nfail_fast: false\ntargets:\n")
	for _, target := range targets {
		settings := settings
		if strings.HasPrefix(target.servers[0].url, "https:") {
			settings += ", connection: {insecure_skip_verify: true}"
		}
		fmt.Fprintf(&b, "  - {name: %s, api: %s, model: m, tokenizer: words, exact_output: never, running_usage: never, max_output: 256, %s, endpoints: [",
			target.name, target.api.name, settings)
		for _, s := range target.servers {
			fmt.Fprintf(&b, "%q, ", s.url)
		}
		b.WriteString("]}\n")
		most = max(most, len(target.servers))
	}
	fmt.Fprintf(&b, "workloads:\n  - random: {isl: 10, osl: %d}\nloads:\n  - {concurrency: 64, requests: %d}\n",
		len(words), perEndpoint*most)
	return b.String()
}

// identity returns the configuration of a TLS server whose certificate no CA has signed.
func identity(t *testing.T) *tls.Config {
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	return &tls.Config{Certificates: s.TLS.Certificates}
}

// cluster is a coordinator and an agent, one process each.
type cluster struct {
	address string
	agent   *process.Process
}

func startCluster(t *testing.T) cluster {
	coordinator := process.Start(t, programs.Built.Coordinator, "--listen", "127.0.0.1:0", "--no-gossip",
		"--log-format", "json")
	address := coordinator.Await(`"coordinator serves","address":"([^"]+)"`)[1]
	// Real-time priority would let an agent this busy keep the cores from the tests of other packages.
	return cluster{address, process.Start(t, programs.Built.Agent, "--name", "a", "--coordinator", address,
		"--realtime", "off")}
}

// run runs a plan, which must end with the exit code, and returns its run directory.
func (c cluster) run(t *testing.T, code int, plan string) (dir string) {
	dir = filepath.Join(t.TempDir(), "run")
	process.Start(t, programs.Built.Spate, "run", programs.PlanIn(t, plan, nil), "--out", dir, "--coordinator", c.address,
		"--records", "jsonl").MustExit(code)
	return dir
}

// memory returns the agent's peak memory, in KiB.
func (c cluster) memory(t *testing.T) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.agent.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

// descriptors returns how many files and sockets the agent has open.
func (c cluster) descriptors(t *testing.T) int {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.agent.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// Each server misbehaves in its own way. Each request to it fails with the class that docs/results.md gives, or
// completes if the answer is odd but complete. Requests to the healthy servers beside them are measured exactly, and
// the agent stays small.
func TestMisbehavingServers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: the memory of an agent is read from /proc")
	}
	var all tally
	t.Run("group", func(t *testing.T) {
		for name, group := range map[string]struct {
			faults, ofAPIs []fault
			settings       string
		}{
			"faults": {faults, apiFaults, "connect_timeout: 60s, request_timeout: 60s"},
			"hangs":  {hangs, nil, "request_timeout: 8s, first_token_timeout: 4s, gap_timeout: 4s"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				visited := new(atomic.Int64)
				trap := serve(t, nil, func(w *wire) {
					visited.Add(1)
					w.fin()
				})
				var targets []*target
				for _, a := range apis {
					faults := group.faults
					if a.name != "chat" && a.name != "triton" { // one with a mark at its end, and one without
						faults = group.ofAPIs
					}
					if len(faults) > 0 {
						targets = append(targets, newTarget(t, a, a.name, trap.url, nil, faults))
					}
				}
				if name == "faults" {
					targets = append(targets, newTarget(t, apis[0], "secure", trap.url, identity(t),
						securely(transportFaults)))
				}
				check(t, targets, group.settings, &all)
				if n := visited.Load(); n > 0 {
					t.Errorf("the agent followed a redirect %d times", n)
				}
			})
		}
	})
	all.log(t)
	if all.servers["completed"] > 1 && all.servers["all"] < 200 { // not if only the servers that hang were asked for
		t.Errorf("%d servers, want 200 at least", all.servers["all"])
	}
}

// Targets whose only server always misbehaves, even during preparation, run with a plan's defaults. Each stage ends
// soon, with the right class, and does not affect the next target.
func TestTargetsThatMisbehaveThroughout(t *testing.T) {
	t.Parallel()
	var targets []*target
	for _, name := range []string{
		"rubbish", "hangs up without a word", "resets without a word", "status 099", "a page", "302 Found", "gzip",
		"JSON that nests", "JSON null",
		"newlines without end", "JSON without end", "a head without end", "interim answers without end",
		"an HTTP error without end",
		"tokens without end",
	} {
		f := &faults[slices.IndexFunc(faults, func(f fault) bool { return f.name == name })]
		s := &server{fault: f, endpoint: serve(t, nil, asked(func(w *wire, _ string) { f.answer(w, apis[0]) }))}
		targets = append(targets, &target{name: strings.ReplaceAll(name, " ", "-"), api: apis[0],
			servers: []*server{s}})
	}
	well := newTarget(t, apis[0], "well", "", nil, []fault{{apis: func(api) bool { return false }}})
	var b strings.Builder
	b.WriteString("name: throughout\ntargets:\n")
	for _, target := range append(targets, well) {
		fmt.Fprintf(&b, "  - {name: %s, model: m, endpoints: %q, max_output: 256}\n", target.name,
			target.servers[0].url)
	}
	b.WriteString("workloads:\n  - random: {isl: 10, osl: 3}\nloads:\n  - {concurrency: 8, requests: 400}\n")
	c := startCluster(t)
	result := programs.Result(t, c.run(t, 3, b.String()))
	if len(result.Stages) != len(targets)+1 {
		t.Fatalf("%d stages, want %d", len(result.Stages), len(targets)+1)
	}
	for i, target := range targets {
		class := target.servers[0].fault.class(target.api)
		if stage := result.Stages[i]; stage.Requests.Completed > 0 || stage.Requests.Started > 100 ||
			stage.Errors[class] != stage.Requests.Failed || stage.Requests.Failed == 0 {
			t.Errorf("%s: %+v, errors %v, want few and %s", target.name, stage.Requests, stage.Errors, class)
		}
	}
	if last := result.Stages[len(targets)]; last.Requests.Completed != 400 ||
		last.OutputTokens == nil || *last.OutputTokens != 400*well.api.tokens() || !last.Complete {
		t.Errorf("the sound target: %+v, %v tokens", last.Requests, last.OutputTokens)
	}
	if kib := c.memory(t); kib > mostMemory {
		t.Errorf("the agent took %d MiB, and may take %d", kib>>10, mostMemory>>10)
	}
}

// tally counts the misbehaving servers, and the requests to them, by class. It is safe for concurrent use.
type tally struct {
	mu                sync.Mutex
	servers, requests map[string]int
}

func (n *tally) add(class string, requests int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.servers == nil {
		n.servers, n.requests = map[string]int{}, map[string]int{}
	}
	for _, c := range []string{class, "all"} {
		n.servers[c]++
		n.requests[c] += requests
	}
}

func (n *tally) log(t *testing.T) {
	for _, class := range slices.Sorted(maps.Keys(n.servers)) {
		t.Logf("%-20s %4d servers, %4d requests", cmp.Or(class, "completed"), n.servers[class], n.requests[class])
	}
}

// check runs all targets on its own cluster and compares the result with the table.
func check(t *testing.T, targets []*target, settings string, all *tally) {
	c := startCluster(t)
	process.Eventually(t, "the agent is ready", func() bool { return strings.Contains(c.agent.Printed(), "connected") })
	before := c.descriptors(t)
	dir := c.run(t, 0, plan(targets, settings))
	result := programs.Result(t, dir)
	if !result.Run.Complete || len(result.Run.Missing) > 0 || len(result.Stages) != len(targets) {
		t.Fatalf("run %+v of %d stages", result.Run, len(result.Stages))
	}
	rows := map[uint32][]programs.Row{}
	for _, r := range programs.Rows(t, dir) {
		rows[r.Stage] = append(rows[r.Stage], r)
	}
	for i, target := range targets {
		target.check(t, result.Stages[i], rows[result.Stages[i].Index], all)
	}
	if kib := c.memory(t); kib > mostMemory {
		t.Errorf("the agent took %d MiB, and may take %d", kib>>10, mostMemory>>10)
	} else {
		t.Logf("the agent took %d MiB at most", kib>>10)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.agent.Signal(syscall.SIGQUIT) // it prints who still waits for what
			<-c.agent.Ended()
		}
	})
	process.Eventually(t, "the agent has closed its connections", func() bool { return c.descriptors(t) <= before+2 })
}

// check compares a stage with what the servers did.
func (target *target) check(t *testing.T, stage results.StageResult, rows []programs.Row, all *tally) {
	sum := map[string]uint64{}
	requests, timed, off := 0, 0, 0
	for i, s := range target.servers {
		part, mine := stage.Endpoints[i], rowsOf(rows, i)
		requests += len(mine)
		for class, n := range part.Errors {
			sum[class] += n
		}
		if part.URL != s.url || len(mine) < perEndpoint || part.Requests.Started != uint64(len(mine)) {
			t.Fatalf("%s: endpoint %s: %+v, %d rows", target.name, part.URL, part.Requests, len(mine))
		}
		if s.fault != nil {
			s.fault.check(t, target, part, mine)
			all.add(classOf(s.fault.class(target.api)), len(mine))
			continue
		}
		s.check(t, target, part, mine)
		n, wrong := s.times(mine)
		timed, off = timed+n, off+wrong
	}
	if !maps.Equal(sum, stage.Errors) || uint64(requests) != stage.Requests.Started {
		t.Errorf("%s: errors %v and %d requests of the endpoints, %v and %+v of the stage", target.name, sum, requests,
			stage.Errors, stage.Requests)
	}
	// A busy machine delays a stream now and then; of few streams one is already more than a tenth.
	if off > 1 && 10*off > timed || timed == 0 {
		t.Errorf("%s: of %d sound streams %d took another time than their servers say", target.name, timed, off)
	}
}

// classOf returns a class as docs/results.md names it.
func classOf(class string) string {
	if strings.HasPrefix(class, "http_") {
		return "http_NNN"
	}
	return class
}

func rowsOf(rows []programs.Row, endpoint int) (mine []programs.Row) {
	for _, r := range rows {
		if int(r.Endpoint) == endpoint {
			mine = append(mine, r)
		}
	}
	return mine
}

// check compares the outcome of the requests to a misbehaving server with its class.
func (f *fault) check(t *testing.T, target *target, part results.EndpointResult, rows []programs.Row) {
	classes := strings.Split(f.class(target.api), "|")
	if f.class(target.api) == completed {
		want := target.api.tokens()
		if f.tokens != nil {
			want = f.tokens(target.api)
		}
		if n := uint64(len(rows)); part.Requests.Completed != n || len(part.Errors) > 0 ||
			outputOf(part) != n*want {
			t.Errorf("%s, %s: %+v, errors %v, %d tokens; want it completed with %d", target.name, f.name, part.Requests,
				part.Errors, outputOf(part), n*want)
			t.Log(example(rows))
		}
		return
	}
	for class := range part.Errors {
		if !slices.Contains(classes, class) {
			t.Errorf("%s, %s: errors %v, want %v", target.name, f.name, part.Errors, classes)
			t.Log(example(rows))
		}
	}
	if part.Requests.Failed != uint64(len(rows)) || outputOf(part) != 0 || part.TTFT != nil {
		t.Errorf("%s, %s: %+v, errors %v, %d tokens; want %v", target.name, f.name, part.Requests, part.Errors,
			outputOf(part), classes)
		t.Log(example(rows))
	}
}

// outputOf returns an endpoint's output tokens. 0: there are none, or they are not known.
func outputOf(part results.EndpointResult) uint64 {
	if part.OutputTokens == nil {
		return 0
	}
	return *part.OutputTokens
}

// example returns the message of a failed request.
func example(rows []programs.Row) string {
	for _, r := range rows {
		if r.Error != nil {
			return *r.Error
		}
	}
	return "no request failed"
}

// check compares the numbers of a healthy server's requests with what the server did.
func (s *server) check(t *testing.T, target *target, part results.EndpointResult, rows []programs.Row) {
	a, n := target.api, uint64(len(rows))
	if part.Requests.Completed != n || part.Requests.Failed > 0 || len(part.Errors) > 0 ||
		outputOf(part) != n*a.tokens() {
		t.Fatalf("%s: a sound server: %+v, errors %v, %d tokens: %s", target.name, part.Requests, part.Errors,
			outputOf(part), example(rows))
	}
	if told := part.InputTokens != nil; told != a.usage || told && *part.InputTokens != n*promptTokens {
		t.Errorf("%s: a sound server: input tokens %v", target.name, part.InputTokens)
	}
	least := float64(prefill / time.Millisecond)
	if part.TTFT.Count != n || part.E2E.Count != n || part.TTFT.Mean < least {
		t.Errorf("%s: a sound server: TTFT %+v, E2E %+v", target.name, part.TTFT, part.E2E)
	}
}

// slack is how much later than its write the kernel may timestamp a word.
const slack = 500 * time.Microsecond

// times counts the streams whose frames came in separate reads, and those of them whose time from the first word to the
// last is not the server's. For frames that came in one read the kernel keeps one time.
func (s *server) times(rows []programs.Row) (timed, off int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rows {
		gaps := r.ITLNs[:min(len(r.ITLNs), len(words)-1)] // the end may also be a token
		if slices.Contains(gaps, 0) {
			continue
		}
		timed++
		var took time.Duration
		for _, gap := range gaps {
			took += time.Duration(gap)
		}
		if own := s.spans[r.Index]; took < own.least-slack || took > own.most+slack {
			off++
		}
	}
	return timed, off
}
