package jsonschema

import "google.golang.org/protobuf/reflect/protoreflect"

// exactly lists the fields of which a message has exactly one, atLeast those of which it has one or more. The plans
// package checks the same, with words of its own.
var (
	exactly = map[protoreflect.Name][][]string{
		"Load": {{"concurrency", "concurrency_range", "concurrency_phases", "rate", "rate_range", "rate_phases",
			"replay", "sweep", "search"}},
		"Range":          {{"step", "factor", "points"}},
		"Search":         {{"rate", "concurrency"}},
		"RandomContent":  {{"isl", "isl_lengths"}, {"osl", "osl_lengths"}},
		"SessionContent": {{"turns", "turn_counts"}, {"isl", "isl_lengths"}, {"osl", "osl_lengths"}},
	}
	atLeast = map[protoreflect.Name][]string{
		"Target":     {"endpoints", "simulator"},
		"SLO":        {"ttft", "tpot", "e2e"},
		"Objectives": {"latencies", "error_share", "goodput"},
		"Abort":      {"error_share", "duration"},
		"Phase":      {"from", "to"},
	}
	// apart lists fields of which a message has at most one.
	apart = map[protoreflect.Name][]string{
		"Observers": {"rate", "concurrency"},
	}
	// together lists fields that want another one beside them.
	together = map[protoreflect.Name]object{
		"Load":          {{"burstiness", []string{"arrival"}}},
		"Phase":         {{"shape", []string{"to"}}, {"steps", []string{"shape"}}},
		"NormalLengths": {{"mean", []string{"stddev"}}},
	}
)

// alternatives returns the conditions between the fields of a message.
func alternatives(message protoreflect.Name) []object {
	var all []object
	for _, fields := range exactly[message] {
		all = append(all, oneOf("oneOf", fields))
	}
	if fields := atLeast[message]; fields != nil {
		all = append(all, oneOf("anyOf", fields))
	}
	if fields := apart[message]; fields != nil {
		all = append(all, object{{"not", object{{"required", fields}}}})
	}
	if fields := together[message]; fields != nil {
		all = append(all, object{{"dependentRequired", fields}})
	}
	return all
}

// oneOf wants as many of the fields as the keyword says.
func oneOf(keyword string, fields []string) object {
	var choices []object
	for _, field := range fields {
		choices = append(choices, object{{"required", []string{field}}})
	}
	return object{{keyword, choices}}
}
