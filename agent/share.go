package agent

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/preparation"
	"github.com/spate-load/spate/agent/scrape"
	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/dataset"
)

// readyStage is the agent's part of a stage, made ready: everything that can fail before the start has been tried.
type readyStage struct {
	stage   *spatev1.Stage
	run     string
	records bool
	prefix  string // of request IDs
	client  *stream.Client
	pins    allow.Pins // of the target's hosts
	found   preparation.Found
	servers *scrape.Scraper // nil: this agent reads no servers
	rows    *dataset.Rows   // nil: the workload needs none
	content workload.Workload
	balance *balance

	sessions     bool // arrivals may have several requests
	keepsAnswers bool // the history of a session has the server's answers
	varies       bool // the load changes over time

	counted bool // the load says how many measured arrivals the agent must start

	stripe *spatev1.Stripe  // latest revision
	part   schedule.Share   // parsed from stripe
	closed *schedule.Closed // nil for an open loop
	// Open loop: the schedule, and a copy that finds its end without taking arrivals from it.
	open, scout schedule.Open
	maxStreams  int
	limits      limits
	newWatch    func() Watch // nil: requests are not watched
	answers     *stream.Memory
}

// resources is what an agent needs to prepare its stages.
type resources struct {
	limits   limits
	datasets *datasets
	findings *findings
	logger   *slog.Logger
	newWatch func() Watch      // nil: requests are not watched
	name     string            // the agent's name
	capacity *spatev1.Capacity // nil: not known
	answers  *stream.Memory    // for all answers that are longer than requested
}

// prepare makes a stage ready to start. Its error says why that failed and what to do. The caller must close the stage.
// prepare blocks while the target's server answers questions and datasets arrive.
func prepare(ctx context.Context, a *spatev1.Assign, res resources) (*readyStage, error) {
	s := &readyStage{
		stage:   a.GetStage(),
		run:     a.GetRef().GetRunId(),
		records: a.GetRecords(),
		prefix:  fmt.Sprintf("%s-%d-", a.GetRef().GetRunId(), a.GetStage().GetIndex()),
		varies:  varies(a.GetStage().GetLoad()),

		newWatch: res.newWatch,
		answers:  res.answers,
	}
	play, sessions := sessionPlay(s.stage.GetWorkload())
	s.sessions, s.keepsAnswers = sessions, sessions && play.GetHistory() != "planned"
	if err := s.makeReady(ctx, a, res); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// makeReady takes the steps of prepare, the cheapest first.
func (s *readyStage) makeReady(ctx context.Context, a *spatev1.Assign, res resources) error {
	var err error
	if s.pins, err = res.limits.checkTargets(ctx, s.target()); err != nil {
		return err
	}
	if err := s.openRows(ctx, res.datasets); err != nil {
		return err
	}
	if err := s.schedule(a.GetStripe(), res.limits); err != nil {
		return err
	}
	if err := s.connect(ctx, a.GetSecrets(), res.findings); err != nil {
		return err
	}
	if err := s.watchServers(ctx, a, res); err != nil {
		return err
	}
	if err := s.makeContent(); err != nil {
		return err
	}
	s.found.Preparation = noteCapacity(s.found.Preparation, s.exceedsCapacity(res.capacity), res.name)
	runtime.GC() // while nothing is due, so that no stage inherits the garbage of earlier ones
	return nil
}

// close releases connections and files. Nothing may use the stage any more.
func (s *readyStage) close() {
	if s.client != nil {
		s.client.Close()
	}
	if s.servers != nil {
		s.servers.Close()
	}
	switch {
	case s.content != nil:
		_ = s.content.Close() // it was only read, so the error does not matter
	case s.rows != nil:
		_ = s.rows.Close()
	}
}

func (s *readyStage) target() *spatev1.Target { return s.stage.GetTarget() }

// openRows opens the workload's dataset, if it has one.
func (s *readyStage) openRows(ctx context.Context, d *datasets) error {
	ds := s.stage.GetDataset()
	if ds == nil {
		return nil
	}
	path, err := d.path(ctx, ds)
	if err != nil {
		return fmt.Errorf("workload %s: %w", s.stage.GetWorkload().GetName(), err)
	}
	if s.rows, err = dataset.Open(path); err != nil {
		return fmt.Errorf("workload %s: dataset %s: %w", s.stage.GetWorkload().GetName(), ds.GetSha256(), err)
	}
	if s.rows.Len() != ds.GetRows() {
		return fmt.Errorf("workload %s: dataset %s has %d rows, but the stage was made for %d",
			s.stage.GetWorkload().GetName(), ds.GetSha256(), s.rows.Len(), ds.GetRows())
	}
	return nil
}

// schedule makes the schedule of a stripe's arrivals.
func (s *readyStage) schedule(stripe *spatev1.Stripe, l limits) (err error) {
	if s.part, err = schedule.NewShare(stripe); err != nil {
		return fmt.Errorf("stripe: %w", err)
	}
	s.stripe, s.limits = stripe, l
	s.counted = schedule.Counted(s.stage.GetLoad())
	if s.stage.GetLoad().GetConcurrency() > 0 {
		return s.scheduleClosed(l)
	}
	return s.scheduleOpen(l)
}

func (s *readyStage) scheduleClosed(l limits) (err error) {
	if s.closed, err = schedule.NewClosed(s.stage.GetLoad(), s.stage.GetSeed(), s.part); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := l.checkStreams(s.closed.Slots(), countFiles()); err != nil {
		return err
	}
	return l.checkPorts(s.closed.Slots(), l.portsTowards(s.target()))
}

func (s *readyStage) scheduleOpen(l limits) (err error) {
	for _, o := range []*schedule.Open{&s.open, &s.scout} {
		if *o, err = s.newOpen(); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	f := countFiles()
	s.maxStreams = l.streams(f)
	if most := l.portsTowards(s.target()).connections(l.agentsInProcess); most > 0 {
		s.maxStreams = min(s.maxStreams, most)
	}
	return l.checkStreams(1, f)
}

// newOpen returns an open loop's schedule, from its start.
func (s *readyStage) newOpen() (schedule.Open, error) {
	load := s.stage.GetLoad()
	switch {
	case load.GetReplaySpeed() == 0:
		return schedule.NewOpen(load, s.stage.GetSeed(), s.part)
	case s.rows == nil:
		return nil, fmt.Errorf("a replay needs a workload with a trace, but %s has no rows",
			s.stage.GetWorkload().GetName())
	default:
		return schedule.NewReplay(load, s.stage.GetSeed(), s.rows, s.part)
	}
}

// varies reports whether a load's phases change its rate.
func varies(load *spatev1.LoadPoint) bool {
	phases := load.GetPhases()
	for _, p := range phases {
		if p.GetFrom() != phases[0].GetFrom() || p.To != nil && p.GetTo() != p.GetFrom() {
			return true
		}
	}
	return false
}

// makeContent makes the workload, and checks that the server accepts its longest request.
func (s *readyStage) makeContent() (err error) {
	s.content, err = workload.New(workload.Config{
		Workload: s.stage.GetWorkload(), Seed: s.stage.GetSeed(), Run: s.prefix, Form: s.client.Form(),
		Rows: s.rows, Words: s.found.Words, FirstWords: s.found.First, LineTokens: s.found.Lines,
		Template: s.found.Template,
	})
	if err != nil {
		return fmt.Errorf("workload %s: %w", s.stage.GetWorkload().GetName(), err)
	}
	s.balance = newBalance(s.stage, s.content)
	return s.checkLongest()
}

// checkLongest returns an error if the longest request exceeds the server's limit, as far as both are known.
func (s *readyStage) checkLongest() error {
	longest, known := workload.LongestRequest(s.stage.GetWorkload(), s.stage.GetDataset())
	most := s.found.Preparation.MaxModelTokens
	if !known || most == nil || longest <= *most {
		return nil
	}
	return fmt.Errorf("workload %s: its longest request has %d tokens, prompt and output together, but target %s "+
		"accepts at most %d (max_model_len): make prompts or outputs shorter, or serve the model with a longer context",
		s.stage.GetWorkload().GetName(), longest, s.target().GetName(), *most)
}
