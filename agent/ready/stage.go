// Package ready makes an agent's part of a stage ready: hosts are checked, the dataset is fetched, the schedule is
// computed, the target is asked what it does, and the content is generated. Everything that can fail before the start
// has then been tried.
package ready

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/scrape"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/internal/kernel"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
	"github.com/spate-load/spate/workload/store"
)

// Stage is the agent's part of a stage, made ready. Only Revise changes it.
type Stage struct {
	Assigned *spatev1.Stage
	// Records reports whether rows of single requests are wanted.
	Records bool
	// IDs are those of the stage's requests.
	IDs measure.RequestIDs
	// Client sends requests to the target.
	Client *stream.Client
	// Preparation is what is known about the target, with notes about this agent.
	Preparation *spatev1.Preparation
	// Servers reads the metrics of the servers that were assigned to this agent. Nil: none were.
	Servers *scrape.Scraper
	Content workload.Workload
	// Answers check answers against what their requests asked for, by part of the mixture, or all answers.
	Answers []*AnswerChecker
	// Canaries go beside requests. Nil: none do.
	Canaries *Canaries

	// Sessions reports whether arrivals may have several requests, KeepsAnswers whether a session's history has the
	// server's answers, Varies whether the load changes over time, and Counted whether the load says how many measured
	// arrivals the agent must start.
	Sessions, KeepsAnswers, Varies, Counted bool
	// Variants are the variants of requests.
	Variants []content.Variant
	// Single reports by part of the mixture, or for all, whether arrivals are not sessions.
	Single []bool

	// Stripe is the latest revision, Part the same in another form.
	Stripe *spatev1.Stripe
	Part   schedule.Share
	// Closed is the schedule of a closed loop, Open that of an open loop. The other one is nil. Scout is a copy of Open
	// that finds its end without taking arrivals from it.
	Closed      *schedule.Closed
	Open, Scout *schedule.Open
	// MaxStreams is how many requests of an open loop may be in flight: the agent's part of the load's max_in_flight,
	// or what the agent's limits allow.
	MaxStreams int

	run     string
	found   *spatev1.Found   // what is known about the target; shared with other stages
	asked   bool             // this agent asked the target
	pins    allow.Pins       // of the target's hosts
	rows    []*rows.File     // of the workload or its parts; nil elements: no file
	traces  *workload.Traces // of a mixture that is replayed; nil: it is not
	limits  Limits
	answers *stream.Memory
	waiting func(text string) // tells what a server that is not ready answers
}

// Resources is what an agent needs to prepare its stages. It is safe for concurrent use.
type Resources struct {
	Limits   Limits
	Datasets *store.Fetcher
	Logger   *slog.Logger
	// Name is the agent's name.
	Name string
	// Capacity is the load that this machine measures exactly. Nil: not known.
	Capacity *spatev1.Capacity
	// Answers is the memory for all answers that are longer than requested. Nil: there is no limit.
	Answers *stream.Memory
	// Waiting tells what the server of an assignment answers, while it is not ready. May be nil.
	Waiting func(ref *spatev1.AssignmentRef, text string)

	findings findings
}

// Prepare makes a stage ready to start. Its error says why that failed and what to do. The caller must close the stage.
// If another agent asks the target, found yields what that agent found. Prepare blocks while the target's server
// answers questions and datasets arrive.
func Prepare(ctx context.Context, a *spatev1.Assign, found <-chan *spatev1.Found, res *Resources) (*Stage, error) {
	s := &Stage{
		Assigned: a.GetStage(),
		run:      a.GetRef().GetRunId(),
		Records:  a.GetRecords(),
		IDs:      measure.RequestIDsOf(a.GetRef().GetRunId(), a.GetStage().GetIndex()),
		Varies:   varies(a.GetStage().GetLoad()),

		answers: res.Answers,
		waiting: func(text string) {
			if res.Waiting != nil {
				res.Waiting(a.GetRef(), text)
			}
		},
	}
	for _, part := range content.Parts(s.Assigned.GetWorkload()) {
		s.Single = append(s.Single, !content.PlaysSessions(part))
		s.Sessions = s.Sessions || content.PlaysSessions(part)
	}
	s.Variants = content.Variants(s.Assigned.GetWorkload())
	if err := s.makeReady(ctx, a, found, res); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// makeReady takes the steps of Prepare, the cheapest first.
func (s *Stage) makeReady(
	ctx context.Context, a *spatev1.Assign, found <-chan *spatev1.Found, res *Resources,
) (err error) {
	if s.pins, err = res.Limits.checkTargets(ctx, s.Target()); err != nil {
		return err
	}
	if err := s.openRows(ctx, res.Datasets); err != nil {
		return err
	}
	if err := s.Schedule(a.GetStripe(), res.Limits); err != nil {
		return err
	}
	config, err := s.clientConfig(a.GetSecrets())
	if err != nil {
		return err
	}
	if err := s.checkAnswers(config.Body); err != nil {
		return err
	}
	if err := s.awaitFound(ctx, a, found); err != nil {
		return err
	}
	if err := s.connect(ctx, config, &res.findings); err != nil {
		return err
	}
	if len(s.found.GetAnswers()) > 0 {
		if s.Canaries, err = s.newCanaries(); err != nil {
			return err
		}
	}
	if err := s.watchServers(ctx, a.GetServerSources(), config, res); err != nil {
		return err
	}
	if err := s.makeContent(); err != nil {
		return err
	}
	if err := s.checkMemory(kernel.Memory()); err != nil {
		return err
	}
	if exceeds := s.exceedsCapacity(res.Capacity); exceeds != "" {
		s.note("The machine of agent %s %s: its times may be less exact; add agents.", res.Name, exceeds)
	}
	runtime.GC() // while nothing is due, so that no stage inherits the garbage of earlier ones
	return nil
}

// awaitFound blocks until it is known what another agent found out about the target, if the stage awaits that.
func (s *Stage) awaitFound(ctx context.Context, a *spatev1.Assign, found <-chan *spatev1.Found) error {
	if s.found = a.GetFound(); s.found == nil && a.GetAwaitsFound() {
		select {
		case s.found = <-found:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// checkAnswers makes the checkers of answers. body has the fields of bodies that the target gives.
func (s *Stage) checkAnswers(body map[string]any) error {
	for _, v := range s.firstVariants() {
		checker, err := NewAnswerChecker(defaults.API(s.Target()), v.Over(body))
		if err != nil {
			return fmt.Errorf("target %s: body: %w", s.Target().GetName(), err)
		}
		s.Answers = append(s.Answers, checker)
	}
	return nil
}

// firstVariants returns the first variant of each part, or the only variant. Those of one part differ in their models.
func (s *Stage) firstVariants() []content.Variant {
	return slices.CompactFunc(slices.Clone(s.Variants), func(a, b content.Variant) bool { return a.Part == b.Part })
}

// Close releases connections and files. Nothing may use the stage any more.
func (s *Stage) Close() {
	if s.Client != nil {
		s.Client.Close()
	}
	if s.Servers != nil {
		s.Servers.Close()
	}
	switch {
	case s.Content != nil:
		_ = s.Content.Close() // it was only read, so the error does not matter
	default:
		for _, of := range s.rows {
			if of != nil {
				_ = of.Close()
			}
		}
	}
}

// Applied returns the answer to an assignment or its revision that is ready.
func (s *Stage) Applied(ref *spatev1.AssignmentRef) *spatev1.Applied {
	m := &spatev1.Applied{Ref: ref, Preparation: s.Preparation}
	if s.asked {
		m.Found = s.found
	}
	return m
}

// Target returns the target of the stage.
func (s *Stage) Target() *spatev1.Target { return s.Assigned.GetTarget() }

// openRows opens the datasets of the workload, or of the parts of its mixture.
func (s *Stage) openRows(ctx context.Context, d *store.Fetcher) (err error) {
	for _, source := range content.Sources(s.Assigned) {
		var opened *rows.File
		if source.Rows != nil {
			if opened, err = openSource(ctx, d, source); err != nil {
				return fmt.Errorf("workload %s: %w", source.Workload.GetName(), err)
			}
		}
		s.rows = append(s.rows, opened)
		s.KeepsAnswers = s.KeepsAnswers || keepsAnswers(source.Workload, opened)
	}
	return nil
}

// keepsAnswers reports whether the history of a workload's sessions has the server's answers.
func keepsAnswers(w *spatev1.Workload, opened *rows.File) bool {
	play, sessions := content.Play(w)
	return sessions && cmp.Or(play.GetHistory(), "server") == "server" &&
		(content.Trace(w) == nil || opened.Continued())
}

// openSource opens one dataset.
func openSource(ctx context.Context, d *store.Fetcher, source content.Source) (*rows.File, error) {
	path, err := d.Path(ctx, source.Rows)
	if err != nil {
		return nil, err
	}
	opened, err := rows.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", source.Rows.GetSha256(), err)
	}
	if n := source.Rows.GetRows(); opened.Len() != n {
		_ = opened.Close()
		return nil, fmt.Errorf("dataset %s has %d rows, but the stage was made for %d", source.Rows.GetSha256(),
			opened.Len(), n)
	}
	return opened, nil
}

// makeContent makes the workload, and checks that the server accepts its longest request.
func (s *Stage) makeContent() (err error) {
	config := workload.Config{
		Workload: s.Assigned.GetWorkload(), Seed: s.Assigned.GetSeed(), Form: s.Client.Form(),
		Run:  fmt.Sprintf("%s-%d-", s.run, s.Assigned.GetIndex()),
		Rows: s.rows[0], PartRows: s.rows, Words: s.found.GetWords(), FirstWords: s.found.GetFirst(),
		Traces: s.traces, Template: s.Preparation.GetTemplateTokens(),
	}
	for _, part := range s.found.GetLines() {
		config.PartLineTokens = append(config.PartLineTokens, part.GetTokens())
	}
	if config.PartLineTokens != nil {
		config.LineTokens = config.PartLineTokens[0]
	}
	s.Content, err = workload.New(config)
	if err != nil {
		return fmt.Errorf("workload %s: %w", s.Assigned.GetWorkload().GetName(), err)
	}
	return s.checkLongest()
}

// checkLongest returns an error if the longest request exceeds the server's limit, as far as both are known.
func (s *Stage) checkLongest() error {
	most := s.Preparation.MaxModelTokens
	if most == nil {
		return nil
	}
	for _, source := range content.Sources(s.Assigned) {
		if longest, known := workload.LongestRequest(source.Workload, source.Rows); known && longest > *most {
			return fmt.Errorf("workload %s: its longest request has %d tokens, prompt and output together, but target "+
				"%s accepts at most %d (max_model_len): make prompts or outputs shorter, or serve the model with a "+
				"longer context", source.Workload.GetName(), longest, s.Target().GetName(), *most)
		}
	}
	return nil
}
