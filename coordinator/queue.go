package coordinator

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// queue has the runs in memory, and decides which of them begin, with which agents. The lock guards it.
type queue struct {
	*ground
	keeper   keeper // of its runs
	active   []*run // runs in progress, in the order in which they began
	waiting  []*run // in order
	expected int    // runs whose ledgers are being created
	runs     map[string]*run
	recent   []string      // ids of the runs in memory, oldest first
	allotted clock.Instant // when agents were last given to runs
}

// reservePlace reserves a place in the queue for a run whose ledger is about to be created.
func (q *queue) reservePlace() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosing
	}
	if waiting := len(q.waiting) + q.expected; waiting >= q.cfg.MaxWaiting {
		return status.Errorf(codes.ResourceExhausted, "%d runs are waiting, the most allowed: "+
			"submit the run again when some have ended, or stop some", waiting)
	}
	q.expected++
	return nil
}

// create makes a waiting run and creates its ledger.
func (q *queue) create(s submission, wall time.Time) (*run, error) {
	var suffix [3]byte
	rand.Read(suffix[:]) // against clashes; never fails, by its contract
	id := fmt.Sprintf("%s-%s-%x", s.plan.Name(), wall.UTC().Format("20060102T150405Z"), suffix)
	record := &spatev1.RunRecord{
		RunId: id, PlanYaml: s.plan.Source(), Version: q.cfg.Version, Records: s.request.GetRecords(),
		Submitter: s.submitter.String(), SubmitterAddress: s.submitter.Host(),
		SubmitTime: timestamppb.New(wall), Priority: s.request.GetPriority(),
	}
	if speed, simulation := s.plan.Compression(); simulation {
		record.TimeCompression = speed
	}
	for _, st := range s.stages {
		record.Stages += plans.EstimateOf(st).Stages
	}
	submission := &spatev1.Submission{
		Name: s.plan.Name(), Plan: s.stages, References: slices.Sorted(maps.Keys(s.secrets)),
		MinAgents: s.request.GetMinAgents(), AgentsTimeout: s.request.GetAgentsTimeout(), Local: q.cfg.Local,
	}
	if err := os.MkdirAll(q.storage.Dir(id), 0o755); err != nil {
		return nil, err
	}
	l, err := ledger.Create(q.storage.Ledger(id), ledger.Change{Run: record, Submission: submission})
	if err != nil {
		_ = os.Remove(q.storage.Dir(id)) // empty: nothing else would remove the directory
		return nil, err
	}
	r := newRun(q.ground, q.keeper, record, submission)
	r.setLedger(l)
	r.secrets, r.client = s.secrets, s.request.GetVersion()
	return r, nil
}

// enqueue puts the expected run into the queue, unless creating it failed. It returns its place there, from 1, or 0 if
// it begins at once. written is closed when the run's queued records are durable.
func (q *queue) enqueue(r *run, failure error) (place int, written <-chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expected--
	if failure != nil {
		return 0, nil, failure
	}
	if q.closed { // the next coordinator resumes it
		return len(q.waiting), r.written(), r.ledger.Close()
	}
	q.wait(r)
	q.allot(clock.Now())
	if r.machine != nil {
		return 0, r.written(), nil
	}
	place = slices.Index(q.waiting, r) + 1
	q.log.Info("run waits", "run", r.id, "place", place)
	return place, r.written(), nil
}

// wait puts a run into the queue, behind those of its priority. The lock is held.
func (q *queue) wait(r *run) {
	q.remember(r)
	q.waiting = append(q.waiting, r)
	slices.SortStableFunc(q.waiting, func(a, b *run) int {
		return cmp.Compare(b.record.GetPriority(), a.record.GetPriority())
	})
}

// stop stops a run, and returns nil if it is not in memory. stopper is who wants it.
func (q *queue) stop(id string, immediately bool, stopper string) (written <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.runs[id]
	if r == nil {
		return nil
	}
	if i := slices.Index(q.waiting, r); i >= 0 && !q.closed {
		q.log.Info("waiting run stopped", "run", id)
		q.waiting = slices.Delete(q.waiting, i, i+1)
		r.record.Stopper = stopper
		r.endWaiting(spatev1.Outcome_OUTCOME_STOPPED, "stopped on request before it began")
		q.allot(clock.Now())
	}
	r.stop(immediately, stopper)
	return r.written()
}

// resume puts a run of an earlier coordinator among those in progress. It is about to be rebuilt. The lock is held.
func (q *queue) resume(r *run, roster []*spatev1.AgentInfo) {
	r.inProgress = true
	q.active = append(q.active, r)
	for _, a := range roster {
		if q.fleet.RunOf(a.GetName()) == "" {
			q.fleet.Take(r.id, a)
		}
	}
	q.remember(r)
}

// remove removes a run from those in progress, and makes its agents free. The lock is held.
func (q *queue) remove(r *run) {
	r.inProgress = false
	q.active = slices.DeleteFunc(q.active, func(other *run) bool { return other == r })
	q.fleet.FreeAll(r.id)
}

// maxRecent is how many ended runs are kept in memory for followers. Older runs are read from their ledgers.
const maxRecent = 8

// remember keeps a run in memory for its followers, and forgets the oldest ended runs beyond maxRecent. The lock is
// held.
func (q *queue) remember(r *run) {
	q.runs[r.id] = r
	q.recent = append(q.recent, r.id)
	over := len(q.recent) - maxRecent - len(q.waiting) - len(q.active)
	q.recent = slices.DeleteFunc(q.recent, func(id string) bool {
		if old := q.runs[id]; over <= 0 || q.has(old) || old == r {
			return false
		}
		over--
		delete(q.runs, id)
		return true
	})
}

// has reports whether a run waits or is in progress. The lock is held.
func (q *queue) has(r *run) bool { return r.inProgress || slices.Contains(q.waiting, r) }

// forget removes a run from memory. The lock is held.
func (q *queue) forget(id string) {
	delete(q.runs, id)
	q.recent = slices.DeleteFunc(q.recent, func(other string) bool { return other == id })
}

// known returns a run that is in memory, nil if it is not.
func (q *queue) known(id string) *run {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.runs[id]
}

// unended reports whether a run waits or is in progress, so that its ledger is still being written.
func (q *queue) unended(id string) bool {
	r := q.known(id)
	if r == nil {
		return false
	}
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// summaries returns the runs in progress and those that wait.
func (q *queue) summaries() (all []*spatev1.RunSummary) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all = lists.Each(q.active, (*run).summary)
	for i, r := range q.waiting {
		s := r.summary()
		s.Place, s.WaitsFor, s.WaitsBecause = uint32(i+1), slices.Clone(r.wait.For), q.why(r)
		all = append(all, s)
	}
	return all
}
