package jsonschema

import "google.golang.org/protobuf/reflect/protoreflect"

// exactly lists groups of fields of which a message has exactly one. atLeast lists fields of which it has one or more.
// The plans package checks the same, with its own messages.
var (
	exactly = map[protoreflect.Name][][]string{
		"Load": {{"concurrency", "concurrency_range", "concurrency_phases", "concurrency_spike", "concurrency_steps",
			"rate", "rate_range", "rate_phases", "rate_spike", "rate_steps", "replay", "sweep", "search", "frontier"}},
		"Range":          {{"step", "factor", "points"}},
		"Search":         {{"rate", "concurrency"}},
		"Frontier":       {{"rate", "concurrency"}},
		"RandomContent":  {{"isl", "isl_lengths"}},
		"SessionContent": {{"turns", "turn_counts"}, {"isl", "isl_lengths"}, {"osl", "osl_lengths"}},
	}
	atLeast = map[protoreflect.Name][]string{
		"Target":     {"endpoints", "kubernetes", "simulator"},
		"SLO":        {"ttft", "tpot", "e2e"},
		"Objectives": {"latencies", "error_share", "goodput"},
		"Abort":      {"error_share", "duration"},
		"Phase":      {"from", "to"},
	}
	// apart lists groups of fields of which a message has at most one.
	apart = map[protoreflect.Name][][]string{
		"RandomContent": {{"osl", "osl_lengths"}, {"texts", "text_counts"}},
	}
	// together lists fields that need one of other fields beside them.
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
	for _, fields := range apart[message] {
		all = append(all, object{{"not", object{{"required", fields}}}})
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
