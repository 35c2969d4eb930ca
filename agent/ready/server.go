package ready

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
)

// engines are servers that name themselves as the owner of their models.
var engines = map[string]string{
	"vllm":         "vLLM",
	"sglang":       "SGLang",
	"tensorrt_llm": "TensorRT-LLM",
	ownSimulator:   "Spate simulator",
}

// others are servers that are known by their APIs, or gateways that do not name the engines behind them.
var others = map[string]string{"tgi": "TGI", "tei": "TEI", "triton": "Triton", "nvidia": "Dynamo"}

// ownSimulator is the owner of the simulator's models. The simulator accepts any model name unless it is given one.
const ownSimulator = "spate"

// server finds out what the server is, which model it serves, and how its endpoints differ.
func (f *finder) server(ctx context.Context) {
	first := f.askEndpoint(ctx, endpoint)
	if first.err != nil {
		f.unreachable = stream.Unreachable(first.err)
		f.note("The server does not list its models (%v), so its software and its maximum context length are not "+
			"known.",
			first.err)
		return
	}
	f.compare(ctx, first)
	model := f.model(first.models)
	f.owner = model.Owner
	if f.owner != ownSimulator {
		for _, m := range first.models {
			f.found.Models = append(f.found.Models, m.ID)
		}
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
		f.lowerMaxTokens(b.MaxModelTokens)
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
	if i := slices.IndexFunc(models, func(m api.Model) bool { return m.ID == name }); i >= 0 {
		return &models[i]
	}
	return nil
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
	case models[0].Owner == ownSimulator:
		return models[0]
	case wanted != "":
		f.note("The server does not list the model %q; it lists %s.", wanted, listed(models))
	}
	return api.Model{Owner: models[0].Owner}
}

// listed names the first few models of a list, for messages.
func listed(models []api.Model) string {
	const most = 5
	var names []string
	for _, m := range models[:min(len(models), most)] {
		names = append(names, fmt.Sprintf("%.100q", m.ID))
	}
	if more := len(models) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// setMaxTokens records the maximum length of prompt and output together, unless it is already known.
func (f *finder) setMaxTokens(tokens uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tokens > 0 && f.found.Preparation.MaxModelTokens == nil {
		f.found.Preparation.MaxModelTokens = &tokens
	}
}

// lowerMaxTokens lowers that maximum to an endpoint's smaller one. 0: the endpoint reports none.
func (f *finder) lowerMaxTokens(tokens uint32) {
	if p := f.found.Preparation; tokens > 0 && (p.MaxModelTokens == nil || *p.MaxModelTokens > tokens) {
		p.MaxModelTokens = &tokens
	}
}
