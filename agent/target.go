package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/preparation"
	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// connect makes the client, after checking each endpoint and finding out what there is to know about the server.
func (s *readyStage) connect(ctx context.Context, secrets map[string]string, f *findings) error {
	config, err := s.clientConfig(secrets)
	if err != nil {
		return err
	}
	if err := s.newClient(config); err != nil {
		return err
	}
	if err := s.checkEndpoints(ctx); err != nil {
		f.forget(s.run)
		return err
	}
	if s.found, err = f.find(ctx, s); err != nil {
		return err
	}
	if short := preparation.ShortPrompts(s.stage.GetWorkload(), s.found.Template); short != "" {
		s.note("%s", short)
	}
	config.ExactOutput, config.RunningUsage = s.found.Preparation.GetExactOutput(),
		s.found.Preparation.GetRunningUsage()
	if !config.ExactOutput && !config.RunningUsage {
		return nil
	}
	s.client.Close()
	return s.newClient(config)
}

// clientConfig returns the client's configuration for the target.
func (s *readyStage) clientConfig(secrets map[string]string) (stream.Config, error) {
	t := s.target()
	if len(t.GetEndpoints()) == 0 {
		return stream.Config{}, fmt.Errorf("target %s: has no endpoints", t.GetName())
	}
	key, err := resolveSecret(t.GetApiKey(), secrets)
	if err != nil {
		return stream.Config{}, fmt.Errorf("target %s: api_key: %w", t.GetName(), err)
	}
	headers := make(map[string]string, len(t.GetHeaders()))
	for name, value := range t.GetHeaders() {
		if headers[name], err = resolveSecret(value, secrets); err != nil {
			return stream.Config{}, fmt.Errorf("target %s: header %s: %w", t.GetName(), name, err)
		}
	}
	connection, err := stream.ConnectionOf(t.GetConnection(),
		func(reference string) (string, error) { return resolveSecret(reference, secrets) })
	if err != nil {
		return stream.Config{}, fmt.Errorf("target %s: connection.%w", t.GetName(), err)
	}
	connection.Sources, connection.Pins = s.limits.sources, s.pins
	return stream.Config{
		Endpoints: t.GetEndpoints(), API: t.GetApi(), Prompts: t.GetPrompts(), Model: t.GetModel(), APIKey: key,
		Headers:           headers,
		Body:              t.GetBody().AsMap(),
		ConnectTimeout:    t.GetConnectTimeout().AsDuration(),
		RequestTimeout:    t.GetRequestTimeout().AsDuration(),
		FirstTokenTimeout: t.GetFirstTokenTimeout().AsDuration(),
		GapTimeout:        t.GetGapTimeout().AsDuration(),
		MaxOutput:         int(t.GetMaxOutput()),
		Memory:            s.answers,
		Connection:        connection,
	}, nil
}

// newClient makes the client. It does not open a connection.
func (s *readyStage) newClient(config stream.Config) (err error) {
	if s.client, err = stream.New(config); err != nil {
		return fmt.Errorf("target %s: %w", s.target().GetName(), err)
	}
	return nil
}

// resolveSecret returns the value of a secret reference, and any other text unchanged.
func resolveSecret(text string, secrets map[string]string) (string, error) {
	if !strings.HasPrefix(text, "env:") && !strings.HasPrefix(text, "file:") {
		return text, nil
	}
	value, known := secrets[text]
	if !known {
		return "", fmt.Errorf("the value of %s came neither with this assignment nor with an earlier one of this "+
			"run: a restarted coordinator no longer has secrets; submit the run again", text)
	}
	return value, nil
}

// deadTargetError says that an assignment is rejected because its target does not answer.
type deadTargetError struct{ error }

func (e *deadTargetError) Unwrap() error { return e.error }

// failureKindOf returns the failure kind of an error of prepare.
func failureKindOf(err error) spatev1.FailureKind {
	if errors.As(err, new(*deadTargetError)) {
		return spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD
	}
	return spatev1.FailureKind_FAILURE_KIND_AGENT
}

// maxChecks is how many endpoints are tried at once.
const maxChecks = 64

// checkEndpoints tries to connect to each endpoint, so that a dead endpoint is named before the stage starts.
func (s *readyStage) checkEndpoints(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxChecks)
	for i, endpoint := range s.target().GetEndpoints() {
		group.Go(func() error {
			err := s.client.Check(ctx, i)
			if err == nil {
				return nil
			}
			named := fmt.Errorf("target %s: endpoint %s: %w", s.target().GetName(), endpoint, err)
			if _, dead := errors.AsType[*stream.Error](err); dead {
				return &deadTargetError{named}
			}
			return named // ctx has ended, which says nothing about the endpoint
		})
	}
	return group.Wait()
}

// findings caches what was found out about the targets of a run, so that only the first stage of a target asks the
// server. Entries are dropped after staleAfter, and all when a target of the run is found dead, since it may come back
// as something else. A findings is safe for concurrent use.
type findings struct {
	mu    sync.Mutex
	run   string
	known map[finding]cachedFinding
}

// cachedFinding is what was found out, and when.
type cachedFinding struct {
	preparation.Found
	at time.Time
}

// staleAfter is how long a finding is valid: a server that was restarted behind the same address must be asked again at
// some time.
const staleAfter = 30 * time.Minute

// finding is the hash of what a preparation depends on.
type finding [sha256.Size]byte

// findingOf hashes what a stage's preparation depends on: how the target is reached and asked, and the kind of its
// prompts. It excludes the target's name, and the values of headers, which are secrets or references to them.
func findingOf(s *spatev1.Stage) (finding, error) {
	t := s.GetTarget()
	headers := make(map[string]string)
	for name := range t.GetHeaders() {
		headers[name] = ""
	}
	depends := &spatev1.Stage{
		Target: &spatev1.Target{
			Endpoints: t.GetEndpoints(), Api: t.GetApi(), Model: t.GetModel(), ApiKey: t.GetApiKey(), Headers: headers,
			Body:    t.GetBody(),
			Prompts: t.GetPrompts(), Tokenizer: t.GetTokenizer(), ExactOutput: t.GetExactOutput(),
			RunningUsage: t.GetRunningUsage(),
		},
		Lexicon: s.GetLexicon(),
	}
	kind := preparation.KindOf(s.GetWorkload())
	if kind == preparation.Lines {
		depends.Dataset = s.GetDataset()
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(depends)
	if err != nil {
		return finding{}, fmt.Errorf("target %s: %w", t.GetName(), err)
	}
	return sha256.Sum256(append(b, byte(kind))), nil
}

// find returns what is known about a stage's target. If no stage of the run has asked the server recently, find asks
// it, and blocks.
func (f *findings) find(ctx context.Context, s *readyStage) (preparation.Found, error) {
	key, err := findingOf(s.stage)
	if err != nil {
		return preparation.Found{}, err
	}
	if found, known := f.get(s.run, key); known {
		return found, nil
	}
	found, err := preparation.Find(ctx, s.client, s.stage,
		func() ([]workload.Line, error) { return workload.Lines(s.rows) })
	if err == nil {
		f.put(s.run, key, found)
	}
	return found, err
}

func (f *findings) get(run string, key finding) (found preparation.Found, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k, known := f.known[key]
	if f.run != run || !known || time.Since(k.at) > staleAfter {
		return preparation.Found{}, false
	}
	return k.Found, true
}

func (f *findings) put(run string, key finding, found preparation.Found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run != run || f.known == nil {
		f.run, f.known = run, map[finding]cachedFinding{}
	}
	f.known[key] = cachedFinding{found, time.Now()}
}

// forget drops the findings about the targets of a run.
func (f *findings) forget(run string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run == run {
		f.known = nil
	}
}
