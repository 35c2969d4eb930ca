package jsonschema

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/plans/document"
)

// exactly lists groups of fields of which a message has exactly one. atLeast lists fields of which it has one or more.
// The plans package checks the same, with its own messages.
var (
	exactly = map[protoreflect.Name][][]string{
		"Load": {{"concurrency", "concurrency_range", "concurrency_phases", "concurrency_spike", "concurrency_steps",
			"rate", "rate_range", "rate_phases", "rate_spike", "rate_steps", "replay", "sweep", "search", "frontier"}},
	}
	atLeast = map[protoreflect.Name][]string{
		"Target":     {"endpoints", "kubernetes", "simulator"},
		"SLO":        {"ttft", "tpot", "e2e"},
		"Objectives": {"latencies", "error_share", "goodput"},
		"Abort":      {"error_share", "duration"},
		"Phase":      {"from", "to"},
	}
	// together lists fields that need one of other fields beside them.
	together = map[protoreflect.Name]object{
		"Load":          {{"burstiness", []string{"arrival"}}},
		"Phase":         {{"shape", []string{"to"}}, {"steps", []string{"shape"}}},
		"NormalLengths": {{"mean", []string{"stddev"}}},
	}
)

// alternatives returns the conditions between the fields of a message.
func alternatives(m protoreflect.MessageDescriptor) []object {
	message := m.Name()
	var all []object
	for _, fields := range exactly[message] {
		all = append(all, oneOf("oneOf", fields))
	}
	if fields := atLeast[message]; fields != nil {
		all = append(all, oneOf("anyOf", fields))
	}
	for _, group := range document.Choices(m) {
		if !group.GetRequired() {
			all = append(all, object{{"not", object{{"required", group.GetFields()}}}})
		}
	}
	if fields := together[message]; fields != nil {
		all = append(all, object{{"dependentRequired", fields}})
	}
	return all
}

// oneOf returns the keyword with one choice for each field. The keyword says how many of the fields a message has.
func oneOf(keyword string, fields []string) object {
	var choices []object
	for _, field := range fields {
		choices = append(choices, object{{"required", []string{field}}})
	}
	return object{{keyword, choices}}
}
