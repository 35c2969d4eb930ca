package jsonschema

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/document"
)

// loads are the fields of which a load has exactly one, and targets those of which a target has one or more. The rules
// between the fields of plans check the same, with their own messages.
var (
	loads = []string{"concurrency", "concurrency_range", "concurrency_phases", "rate", "rate_range", "rate_phases",
		"replay", "sweep", "search", "frontier"}
	targets = []string{"endpoints", "kubernetes", "simulator"}
)

// alternatives returns the conditions between the fields of a message.
func alternatives(m protoreflect.MessageDescriptor) []object {
	var all []object
	switch m.Name() {
	case "Load":
		all = append(all, oneOf("oneOf", loads))
	case "Target":
		all = append(all, oneOf("anyOf", targets))
	}
	for _, group := range document.Choices(m) {
		if !group.GetRequired() {
			all = append(all, object{{"not", object{{"required", group.GetFields()}}}})
		}
	}
	var together object
	for i := range m.Fields().Len() {
		for _, other := range document.Needs(m.Fields().Get(i)) {
			together = append(together, member{m.Fields().Get(i).TextName(), []string{other.GetField()}})
		}
	}
	if together != nil {
		all = append(all, object{{"dependentRequired", together}})
	}
	return all
}

// oneOf returns the keyword with one choice for each field. The keyword says how many of the fields a message has.
func oneOf(keyword string, fields []string) object {
	choices := lists.Each(fields, func(field string) object { return object{{"required", []string{field}}} })
	return object{{keyword, choices}}
}
