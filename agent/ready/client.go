package ready

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// connect makes the client, after checking each endpoint and finding out what there is to know about the server.
func (s *Stage) connect(ctx context.Context, config stream.Config, f *findings) (err error) {
	if err := s.newClient(config); err != nil {
		return err
	}
	asked, err := s.awaitEndpoints(ctx, f)
	if err != nil {
		f.forget(s.run)
		return err
	}
	if s.Found, err = f.find(ctx, s); err != nil {
		return err
	}
	if unlisted := unlistedModels(s.Assigned.GetWorkload(), s.Found.Models); unlisted != "" {
		s.note("%s", unlisted)
	}
	if asked > 0 {
		s.Found.Preparation = proto.CloneOf(s.Found.Preparation)
		s.Found.Preparation.Requests += asked
	}
	for _, part := range content.Parts(s.Assigned.GetWorkload()) {
		if short := shortPrompts(part, s.Found.Template); short != "" {
			s.note("%s", short)
			break
		}
	}
	config.RunningUsage = s.Found.Preparation.GetRunningUsage()
	s.config = config
	if !s.Found.Preparation.GetExactOutput() && !config.RunningUsage {
		return nil
	}
	return s.SetExactOutput(s.Found.Preparation.GetExactOutput())
}

// SetExactOutput makes requests ask for exactly OSL tokens, or not. It must not be called while there is load.
func (s *Stage) SetExactOutput(exact bool) error {
	s.config.ExactOutput = exact
	s.Client.Close()
	return s.newClient(s.config)
}

// clientConfig returns the client's configuration for the target.
func (s *Stage) clientConfig(secrets map[string]string) (stream.Config, error) {
	t := s.Target()
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
	connection, err := wire.SettingsOf(t.GetConnection(),
		func(reference string) (string, error) { return resolveSecret(reference, secrets) })
	if err != nil {
		return stream.Config{}, fmt.Errorf("target %s: connection.%w", t.GetName(), err)
	}
	connection.Sources, connection.Pins, connection.PacketTimes = s.limits.Sources, s.pins, s.limits.PacketTimes
	return stream.Config{
		Endpoints: t.GetEndpoints(), API: t.GetApi(), Prompts: t.GetPrompts(), Whole: !defaults.Streams(t),
		Template: defaults.Template(t),
		Model:    t.GetModel(), APIKey: key, Headers: headers,
		Body:              t.GetBody().AsMap(),
		Variants:          s.Variants,
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
func (s *Stage) newClient(config stream.Config) (err error) {
	if s.Client, err = stream.New(config); err != nil {
		return fmt.Errorf("target %s: %w", s.Target().GetName(), err)
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

// FailureKindOf returns the failure kind of an error of Prepare.
func FailureKindOf(err error) spatev1.FailureKind {
	if errors.As(err, new(*deadTargetError)) {
		return spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD
	}
	return spatev1.FailureKind_FAILURE_KIND_AGENT
}

// maxChecks is how many endpoints are tried at once.
const maxChecks = 64

// awaitEndpoints returns an error if an endpoint does not accept connections, so that a dead one is named before the
// stage starts. If the target has ready, it waits until all endpoints are, and returns how often it asked. Endpoints
// that were ready for an earlier stage are not asked again while they accept connections.
func (s *Stage) awaitEndpoints(ctx context.Context, f *findings) (asked uint32, err error) {
	err = s.checkEndpoints(ctx)
	if s.Target().GetReady() == nil || ctx.Err() != nil || err == nil && f.knows(s) {
		return 0, err
	}
	asked, err = Await(ctx, s.Client, s.Target(), s.waiting)
	if err != nil && ctx.Err() == nil {
		err = &deadTargetError{err}
	}
	return asked, err
}

// checkEndpoints tries to connect to each endpoint.
func (s *Stage) checkEndpoints(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxChecks)
	for i := range s.Target().GetEndpoints() {
		group.Go(func() error {
			err := s.Client.Check(ctx, i)
			if err == nil {
				return nil
			}
			if _, dead := errors.AsType[*stream.Error](err); dead {
				return &deadTargetError{fmt.Errorf("%s %s", endpointWords(s.Target(), i), deadWords(err))}
			}
			return err // ctx has ended, which says nothing about the endpoint
		})
	}
	return group.Wait()
}
