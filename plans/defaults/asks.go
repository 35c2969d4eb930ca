package defaults

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/api"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Asks returns what a workload asks for beside text, as fields of an API's bodies. What the API cannot say is left out.
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
// if the workload asks for nothing beside text.
func Asked(t *spatev1.Target, w *spatev1.Workload) *spatev1.Target {
	fields := Asks(API(t), w)
	if len(fields) == 0 {
		return t
	}
	body := t.GetBody().AsMap()
	api.Merge(body, fields)
	t = proto.CloneOf(t)
	var err error
	if t.Body, err = structpb.NewStruct(body); err != nil {
		panic(fmt.Sprintf("defaults: a body of JSON values: %v", err))
	}
	return t
}
