package ready

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// connect makes the client, after checking each endpoint and finding out what there is to know about the server, unless
// another agent did.
func (s *Stage) connect(ctx context.Context, config stream.Config, f *findings) (err error) {
	if err := s.newClient(config); err != nil {
		return err
	}
	waited, err := s.awaitEndpoints(ctx, f)
	if err != nil {
		f.forget(s.run)
		return err
	}
	if s.found != nil {
		err = f.keep(s)
	} else {
		s.asked = true
		s.found, err = f.find(ctx, s)
	}
	if err != nil {
		return err
	}
	s.Preparation = proto.CloneOf(s.found.GetPreparation())
	if s.Preparation.Requests += waited; !s.asked {
		s.Preparation.Requests = 0
	}
	if unlisted := unlistedModels(s.Assigned.GetWorkload(), s.found.GetModels()); unlisted != "" {
		s.note("%s", unlisted)
	}
	for _, host := range slices.Sorted(maps.Keys(s.pins)) {
		if n := len(s.pins[host]); n > 1 {
			s.note("%s has %d addresses: connections are spread over them.", host, n)
		}
	}
	for _, part := range content.Parts(s.Assigned.GetWorkload()) {
		if short := shortPrompts(part, s.Preparation.GetTemplateTokens()); short != "" {
			s.note("%s", short)
			break
		}
	}
	s.Client.Close()
	return s.newClient(s.settled(config))
}

// clientConfig returns the client's configuration for the target.
func (s *Stage) clientConfig(secrets map[string]string) (stream.Config, error) {
	config, err := ClientConfig(s.Target(), func(reference string) (string, error) {
		value, known := secrets[reference]
		if !known {
			return "", fmt.Errorf("the value of %s came neither with this assignment nor with an earlier one of this "+
				"run: a restarted coordinator no longer has secrets; submit the run again", reference)
		}
		return value, nil
	})
	c := &config.Connection
	c.Sources, c.Pins, c.PacketTimes = s.limits.Sources, s.pins, s.limits.PacketTimes
	config.Variants, config.Memory = s.Variants, s.answers
	return config, err
}

// ClientConfig returns the configuration of a client for a target. reveal looks up its secrets.
func ClientConfig(t *spatev1.Target, reveal secret.Lookup) (config stream.Config, err error) {
	given := func(text string) (string, error) {
		if secret.IsReference(text) {
			return reveal(text)
		}
		return text, nil
	}
	if len(t.GetEndpoints()) == 0 {
		return config, fmt.Errorf("target %s: has no endpoints", t.GetName())
	}
	if config.APIKey, err = given(t.GetApiKey()); err != nil {
		return config, fmt.Errorf("target %s: api_key: %w", t.GetName(), err)
	}
	config.Headers = make(map[string]string, len(t.GetHeaders()))
	for name, value := range t.GetHeaders() {
		if config.Headers[name], err = given(value); err != nil {
			return config, fmt.Errorf("target %s: header %s: %w", t.GetName(), name, err)
		}
	}
	if config.Connection, err = wire.SettingsOf(t.GetConnection(), given); err != nil {
		return config, fmt.Errorf("target %s: connection.%w", t.GetName(), err)
	}
	config.Endpoints, config.Model, config.Body = t.GetEndpoints(), t.GetModel(), t.GetBody().AsMap()
	config.API, config.Template, config.Prompts = t.GetApi(), defaults.Template(t), t.GetPrompts()
	config.Whole, config.MaxOutput = !defaults.Streams(t), int(t.GetMaxOutput())
	config.ConnectTimeout = t.GetConnectTimeout().AsDuration()
	config.RequestTimeout = t.GetRequestTimeout().AsDuration()
	config.FirstTokenTimeout = t.GetFirstTokenTimeout().AsDuration()
	config.GapTimeout = t.GetGapTimeout().AsDuration()
	return config, nil
}

// newClient makes the client. It does not open a connection.
func (s *Stage) newClient(config stream.Config) (err error) {
	if s.Client, err = stream.New(config); err != nil {
		return fmt.Errorf("target %s: %w", s.Target().GetName(), err)
	}
	return nil
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
	if s.Target().GetReady() == nil || ctx.Err() != nil || err == nil && (s.found != nil || f.knows(s)) {
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

// engines are servers that name themselves as the owner of their models.
var engines = map[string]string{
	"vllm":              "vLLM",
	"sglang":            "SGLang",
	"tensorrt_llm":      "TensorRT-LLM",
	"llamacpp":          "llama.cpp",
	stream.OwnSimulator: "Spate simulator",
}

// others are servers that are known by their APIs, or gateways that do not name the engines behind them.
var others = map[string]string{"tgi": "TGI", "tei": "TEI", "triton": "Triton", "nvidia": "Dynamo"}

// server finds out what the server is, which model it serves, and how its endpoints differ.
func (f *finder) server(ctx context.Context) {
	first := f.askEndpoint(ctx, endpoint)
	if first.err != nil {
		f.unreachable = stream.Unreachable(first.err)
		f.note("The server does not list its models, so its software and its maximum context length are not known. "+
			"Why: %v.", first.err)
		return
	}
	before := f.requests
	f.compare(ctx, first)
	f.elsewhere = f.requests - before
	model := f.model(first.models)
	f.owner = model.Owner
	if f.owner != stream.OwnSimulator {
		f.found.Models = lists.Each(first.models, func(m api.Model) string { return m.ID })
	}
	f.setMaxTokens(model.MaxModelTokens)
	f.found.Preparation.Server = first.software
}

// endpointInfo is what an endpoint reports about itself.
type endpointInfo struct {
	models   []api.Model
	software string // with its version; empty: not known
	err      error  // why there are no models
}

// askEndpoint asks an endpoint for its models and its version.
func (f *finder) askEndpoint(ctx context.Context, endpoint int) endpointInfo {
	f.countRequest()
	models, err := f.client.Models(ctx, endpoint)
	if err != nil || len(models) == 0 {
		return endpointInfo{err: err}
	}
	owner := models[0].Owner
	name := cmp.Or(engines[owner], others[owner])
	if name == "" || owner == "nvidia" { // Dynamo reports no version
		return endpointInfo{models: models, software: name}
	}
	f.countRequest()
	if version, err := f.client.Version(ctx, endpoint); err == nil && version != "" {
		name += " " + version
	}
	return endpointInfo{models: models, software: name}
}

// maxEndpoints is how many endpoints are asked what they are, and maxParallel how many at once.
const (
	maxEndpoints = 64
	maxParallel  = 8
)

// compare asks the other endpoints, too, and notes how they differ from the first.
func (f *finder) compare(ctx context.Context, first endpointInfo) {
	endpoints := f.stage.GetTarget().GetEndpoints()
	all := make([]endpointInfo, min(len(endpoints), maxEndpoints))
	var group errgroup.Group
	group.SetLimit(maxParallel)
	for i := 1; i < len(all); i++ {
		group.Go(func() error {
			all[i] = f.askEndpoint(ctx, i)
			return nil
		})
	}
	_ = group.Wait() // it returns no errors
	for i := 1; i < len(all); i++ {
		if differs := f.difference(first, all[i]); differs != "" {
			f.note("Endpoint %s differs from the first, %s: %s.", endpoints[i], endpoints[0], differs)
		}
	}
}

// difference says how an endpoint differs from the first, or returns "".
func (f *finder) difference(first, other endpointInfo) string {
	if other.err != nil {
		return fmt.Sprintf("it does not list its models (%v)", other.err)
	}
	wanted := f.wanted()
	a, b := find(first.models, wanted), find(other.models, wanted)
	switch {
	case a != nil && b == nil && len(other.models) == 0:
		return "it lists no models"
	case a != nil && b == nil:
		return fmt.Sprintf("it does not list the model %q; it lists %s", wanted, listed(other.models))
	case first.software != other.software:
		return fmt.Sprintf("it is %s, the first is %s", cmp.Or(other.software, "unknown software"),
			cmp.Or(first.software, "unknown software"))
	case a != nil && a.MaxModelTokens != b.MaxModelTokens:
		most := f.found.Preparation.MaxModelTokens
		if b.MaxModelTokens > 0 && (most == nil || *most > b.MaxModelTokens) { // 0: the endpoint reports none
			f.found.Preparation.MaxModelTokens = new(b.MaxModelTokens)
		}
		return fmt.Sprintf("it accepts at most %d tokens, the first %d", b.MaxModelTokens, a.MaxModelTokens)
	}
	return ""
}

// wanted returns the model that requests name.
func (f *finder) wanted() string {
	if name, ok := f.bodyField("model").(string); ok {
		return name
	}
	return f.stage.GetTarget().GetModel()
}

// find returns the model with a name, or nil if it is not listed.
func find(models []api.Model, name string) *api.Model {
	return lists.First(models, func(m *api.Model) bool { return m.ID == name })
}

// model picks the stage's model from the server's list. If the model is not in the list, only the owner is known, from
// the first model listed.
func (f *finder) model(models []api.Model) api.Model {
	wanted := f.wanted()
	m := find(models, wanted)
	switch {
	case len(models) == 0:
		f.note("The server lists no models.")
		return api.Model{}
	case m != nil:
		return *m
	case models[0].Owner == stream.OwnSimulator:
		return models[0]
	case wanted != "":
		f.note("The server does not list the model %q; it lists %s.", wanted, listed(models))
	}
	return api.Model{Owner: models[0].Owner}
}

// listed names the first few models of a list, for messages.
func listed(models []api.Model) string {
	names := lists.Each(models, func(m api.Model) string { return fmt.Sprintf("%.100q", m.ID) })
	return words.Shorten(names, 5)
}

// setMaxTokens records the maximum length of prompt and output together, unless it is already known.
func (f *finder) setMaxTokens(tokens uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tokens > 0 && f.found.Preparation.MaxModelTokens == nil {
		f.found.Preparation.MaxModelTokens = &tokens
	}
}
