package defaults

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/api"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Asks returns what a workload asks for besides text, as fields of an API's bodies. What the API cannot say is left
// out.
func Asks(a *api.API, w *spatev1.Workload) map[string]any {
	fields := make(map[string]any)
	if definitions := w.GetTools().GetDefinitions(); len(definitions) > 0 && a.Tools != nil {
		var all []api.Tool
		for _, d := range definitions {
			all = append(all, Tool(d))
		}
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
