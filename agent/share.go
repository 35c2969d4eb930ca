package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// share is the agent's part of a stage, made ready: whatever can be known to fail has been tried.
type share struct {
	stage   *spatev1.Stage
	prefix  string // of request ids
	records bool
	client  *stream.Client
	content workload.Workload

	// Measured requests that the agent owes, if the load says how many.
	owed    uint64
	counted bool

	closed *arrival.Closed // nil for an open loop
	// Open loop: the schedule, and the same once more, to find its end without taking from it.
	open, scout arrival.Open
	maxStreams  int
}

// prepare makes a share ready to start. Its error says why it cannot be and what to do about it. The caller closes the share.
func prepare(ctx context.Context, a *spatev1.Assign, l limits) (*share, error) {
	s := &share{
		stage:   a.GetStage(),
		prefix:  fmt.Sprintf("%s-%d-", a.GetRef().GetRunId(), a.GetStage().GetIndex()),
		records: a.GetRecords(),
	}
	if err := l.checkTargets(s.target()); err != nil {
		return nil, err
	}
	if err := s.schedule(a, l); err != nil {
		return nil, err
	}
	if err := s.connect(a.GetSecrets()); err != nil {
		return nil, err
	}
	if err := s.probe(ctx); err != nil {
		s.client.Close()
		return nil, err
	}
	return s, nil
}

func (s *share) target() *spatev1.Target { return s.stage.GetTarget() }

// schedule makes the arrivals and the content.
func (s *share) schedule(a *spatev1.Assign, l limits) (err error) {
	stripe := a.GetStripe()
	st, err := arrival.NewStripe(stripe.GetWeights(), int(stripe.GetRank()))
	if err != nil {
		return fmt.Errorf("stripe: %w", err)
	}
	if s.content, err = workload.New(workload.Config{
		Workload: s.stage.GetWorkload(), Seed: s.stage.GetSeed(), Run: a.GetRef().GetRunId(),
	}); err != nil {
		return fmt.Errorf("workload %s: %w", s.stage.GetWorkload().GetName(), err)
	}
	s.owed, s.counted = arrival.Owed(s.stage.GetLoad(), st)
	if s.stage.GetLoad().GetConcurrency() > 0 {
		return s.scheduleClosed(st, l)
	}
	return s.scheduleOpen(st, l)
}

func (s *share) scheduleClosed(st arrival.Stripe, l limits) (err error) {
	if s.closed, err = arrival.NewClosed(s.stage.GetLoad(), s.stage.GetSeed(), st); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return l.checkStreams(s.closed.Slots(), countFiles())
}

func (s *share) scheduleOpen(st arrival.Stripe, l limits) (err error) {
	for _, o := range []*arrival.Open{&s.open, &s.scout} {
		if *o, err = arrival.NewOpen(s.stage.GetLoad(), s.stage.GetSeed(), st); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	f := countFiles()
	s.maxStreams = l.streams(f)
	return l.checkStreams(1, f)
}

// connect makes the client. It opens no connection yet.
func (s *share) connect(secrets map[string]string) error {
	t := s.target()
	if len(t.GetEndpoints()) == 0 {
		return fmt.Errorf("target %s: has no endpoints", t.GetName())
	}
	key, err := reveal(t.GetApiKey(), secrets)
	if err != nil {
		return fmt.Errorf("target %s: api_key: %w", t.GetName(), err)
	}
	headers := make(map[string]string, len(t.GetHeaders()))
	for name, value := range t.GetHeaders() {
		if headers[name], err = reveal(value, secrets); err != nil {
			return fmt.Errorf("target %s: header %s: %w", t.GetName(), name, err)
		}
	}
	s.client, err = stream.New(stream.Config{
		Endpoints: t.GetEndpoints(), API: t.GetApi(), Model: t.GetModel(), APIKey: key, Headers: headers,
		Body:           t.GetBody().AsMap(),
		ConnectTimeout: t.GetConnectTimeout().AsDuration(),
		RequestTimeout: t.GetRequestTimeout().AsDuration(),
	})
	if err != nil {
		return fmt.Errorf("target %s: %w", t.GetName(), err)
	}
	return nil
}

// reveal returns the value of a secret reference, and any other text as it is.
func reveal(text string, secrets map[string]string) (string, error) {
	if !strings.HasPrefix(text, "env:") && !strings.HasPrefix(text, "file:") {
		return text, nil
	}
	value, known := secrets[text]
	if !known {
		return "", fmt.Errorf("the value of %s did not come with the assignment", text)
	}
	return value, nil
}

// deadTargetError is why an assignment is not taken on when nobody answers at its target.
type deadTargetError struct{ error }

func (e *deadTargetError) Unwrap() error { return e.error }

// kindOf says what an error of prepare tells of the stages that are still to come.
func kindOf(err error) spatev1.FailureKind {
	if errors.As(err, new(*deadTargetError)) {
		return spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD
	}
	return spatev1.FailureKind_FAILURE_KIND_AGENT
}

// probes is how many endpoints are tried at a time.
const probes = 64

// probe tries to connect to each endpoint, so that a dead one is named before the stage starts.
func (s *share) probe(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(probes)
	for i, endpoint := range s.target().GetEndpoints() {
		group.Go(func() error {
			if err := s.client.Check(ctx, i); err != nil {
				return &deadTargetError{fmt.Errorf("target %s: endpoint %s: %w", s.target().GetName(), endpoint, err)}
			}
			return nil
		})
	}
	return group.Wait()
}
