package defaults

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/secret"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// Target returns a copy of t with its defaults, for a target that is reached at its own endpoints.
func Target(t *spatev1.Target) *spatev1.Target {
	t = Filled(t)
	t.Simulator = nil // A simulator beside endpoints is for simulations.
	if t.Server != nil && t.Ready == nil {
		t.Ready = Filled(&spatev1.Ready{})
	}
	for i, e := range t.Endpoints {
		t.Endpoints[i] = naming.BaseURL(e)
	}
	fillTarget(t)
	return t
}

// SimulatedTarget returns a copy of t with its defaults, as the simulator serves it. The copy has no endpoints until
// the simulator is started.
func SimulatedTarget(t *spatev1.Target) *spatev1.Target {
	t = Filled(t)
	t.Endpoints, t.Ready, t.Server = nil, nil, nil
	reuse := t.GetConnection().GetReuse()
	t.Connection = nil // the simulator needs no proxy and no TLS, and speaks HTTP/1.1
	if reuse != "" {
		t.Connection = &spatev1.Connection{Reuse: reuse}
	}
	if t.Simulator == nil {
		t.Simulator = Filled(&spatev1.SimulatedTarget{})
	}
	t.Model = cmp.Or(t.Model, "simulated")
	if t.ServerMetrics != nil {
		t.ServerMetrics.Urls, t.ServerMetrics.GpuUrls = nil, nil // The simulator has its own, and no GPUs.
	}
	fillTarget(t)
	return t
}

// WithoutSecrets removes the secrets of a target, which a simulation must neither need nor be sent.
func WithoutSecrets(t *spatev1.Target) {
	t.ApiKey = ""
	maps.DeleteFunc(t.Headers, func(_, value string) bool { return secret.IsReference(value) })
}

func fillTarget(t *spatev1.Target) {
	t.Prompts = cmp.Or(t.Prompts, usualPrompts(API(t)))
	servermetrics.Fill(t.ServerMetrics)
}

// Asks returns what a workload asks for besides text, as fields of an API's bodies. What the API cannot say is left
// out.
func Asks(a *api.API, w *spatev1.Workload) map[string]any {
	fields := make(map[string]any)
	if definitions := w.GetTools().GetDefinitions(); len(definitions) > 0 && a.Tools != nil {
		all := lists.Each(definitions, Tool)
		api.Merge(fields, a.Tools.Define(all, w.GetTools().GetChoice()))
	}
	if schema := w.GetAnswer().GetSchema(); schema != nil && a.Demand != nil {
		api.Merge(fields, a.Demand(schema.AsMap()))
	}
	return fields
}

// Tool reads the definition of a tool, in OpenAI's form or only what its "function" has. The name is empty if it has
// none.
func Tool(definition *structpb.Struct) api.Tool {
	if inner := definition.GetFields()["function"].GetStructValue(); inner != nil {
		definition = inner
	}
	fields := definition.GetFields()
	t := api.Tool{Name: fields["name"].GetStringValue(), Description: fields["description"].GetStringValue(),
		Strict: fields["strict"].GetBoolValue()}
	if parameters := fields["parameters"].GetStructValue(); parameters != nil {
		t.Parameters = parameters.AsMap()
	}
	return t
}

// Asked returns a target as requests of a workload see it: its body has what the workload asks for. It returns t itself
// if the workload asks for nothing besides text.
func Asked(t *spatev1.Target, w *spatev1.Workload) *spatev1.Target {
	fields := Asks(API(t), w)
	if len(fields) == 0 {
		return t
	}
	body := t.GetBody().AsMap()
	api.Merge(body, fields)
	t = proto.CloneOf(t)
	t.Body = structOf(body)
	return t
}

// AskedParts returns a mixture as a target sees it: the bodies of its parts have what the workloads of the parts ask
// for, and the API's options that a part gives have what the mixture asks for within them. It returns w itself if
// nothing is added to a body.
func AskedParts(t *spatev1.Target, w *spatev1.Workload) *spatev1.Workload {
	of, a := w, API(t)
	common, asked := Asks(a, w)[a.Options]
	for i, part := range w.GetMix().GetParts() {
		fields, body := Asks(a, part.GetWorkload()), part.GetBody().AsMap()
		if asked && body[a.Options] != nil {
			api.Merge(fields, map[string]any{a.Options: common}) // the part's would replace them
		}
		if len(fields) == 0 {
			continue
		}
		if of == w {
			of = proto.CloneOf(w)
		}
		if options, is := t.GetBody().AsMap()[a.Options]; is && body[a.Options] == nil && fields[a.Options] != nil {
			body[a.Options] = options // the part's would replace them
		}
		api.Merge(body, fields)
		of.GetMix().GetParts()[i].Body = structOf(body)
	}
	return of
}

// structOf returns the fields of a body as a message.
func structOf(body map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(body)
	if err != nil {
		panic(fmt.Sprintf("defaults: a body of JSON values: %v", err))
	}
	return s
}

// promptForms maps the forms of prompts that are not chat messages to their names.
var promptForms = map[workload.Form]string{workload.TokenIDs: PromptIDs, workload.Text: "text"}

// PromptIDs is the form of prompts that are token IDs.
const PromptIDs = "token_ids"

// API returns a target's API. The default one stands for an unknown one, which the rules report.
func API(t *spatev1.Target) *api.API {
	a, known := registry.Find(t.GetApi())
	switch {
	case !known:
		return registry.All[0]
	case a.Name == registry.TemplateName:
		a = registry.OfTemplate(Template(t))
	}
	if !Streams(t) {
		return a.InOnePiece()
	}
	return a
}

// Streams reports whether a target's answers are requested as streams.
func Streams(t *spatev1.Target) bool {
	if t.GetApi() == registry.TemplateName {
		return t.GetTemplate().GetStream() == registry.SSE || t.GetTemplate().GetStream() == registry.Lines
	}
	if a, known := registry.Find(t.GetApi()); known && a.NoOutput {
		return false
	}
	return t.Stream == nil || t.GetStream() //nolint:protogetter // whether it is given is what counts
}

// Template returns what a target says about the API template.
func Template(t *spatev1.Target) registry.Template {
	s := t.GetTemplate()
	return registry.Template{
		Path: s.GetPath(), Body: s.GetBody(), Form: form(s), Stream: s.GetStream(), Text: s.GetText(),
		Finish: s.GetFinish(), Error: s.GetError(), InputTokens: s.GetInputTokens(), OutputTokens: s.GetOutputTokens(),
		CachedTokens: s.GetCachedTokens(),
	}
}

// form returns the form of a template, nil if it has none. Files whose content is not Base64 are empty; the rules
// report them.
func form(t *spatev1.Template) *api.MultipartForm {
	if len(t.GetForm())+len(t.GetFiles()) == 0 {
		return nil
	}
	f := &api.MultipartForm{Fields: t.GetForm()}
	for _, file := range t.GetFiles() {
		content, err := base64.StdEncoding.DecodeString(file.GetContent())
		if err != nil {
			content = nil
		}
		f.Files = append(f.Files, api.FormFile{
			Field: file.GetField(), Name: filepath.Base(file.GetPath()), Content: content,
		})
	}
	return f
}

// SendsTokenIDs reports whether a target's prompts are token IDs.
func SendsTokenIDs(t *spatev1.Target) bool {
	return cmp.Or(t.GetPrompts(), usualPrompts(API(t))) == PromptIDs
}

// usualPrompts returns the default form of an API's prompts. Empty means messages.
func usualPrompts(a *api.API) string { return promptForms[a.Prompts[0].Form] }
