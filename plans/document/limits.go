package document

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The rules of protovalidate that the schema uses, and what the author of a plan is told. The library for them compiles
// each rule from CEL when a program starts, and knows neither YAML nor positions. The tests compare the two.

// rulesOf returns the rules of a field. Nil: it has none.
func rulesOf(field protoreflect.FieldDescriptor) *validate.FieldRules {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	return rules
}

// inWords returns what a field must be, if the schema says it in words.
func inWords(field protoreflect.FieldDescriptor) string {
	words, _ := proto.GetExtension(field.Options(), spatev1.E_Must).(string)
	return words
}

// check adds what is wrong with a value that was read from a node.
func (s *shape) check(path string, node *yaml.Node, v any, rules *validate.FieldRules, inWords string) {
	if wrong := broken(v, rules, inWords); wrong != "" {
		value := quote(node)
		if value == "0" && rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE {
			wrong += ", or left out"
		}
		if value != "" {
			wrong += ", got " + value
		}
		s.breaks(path, node, "%s", wrong)
	}
}

// broken returns what a value must be instead, or "" if it keeps the rules.
func broken(v any, rules *validate.FieldRules, inWords string) string {
	switch v := v.(type) {
	case string:
		return brokenText(v, rules.GetString(), inWords)
	case float64:
		return outside(v, rules, "")
	case uint32:
		return outside(float64(v), rules, "")
	case uint64:
		return outside(float64(v), rules, "")
	case *durationpb.Duration:
		return outside(v.AsDuration().Seconds(), rules, "s")
	}
	return ""
}

func brokenText(v string, rules *validate.StringRules, inWords string) string {
	length := uint64(utf8.RuneCountInString(v))
	switch {
	case rules.HasMaxLen() && length > rules.GetMaxLen():
		return fmt.Sprintf("must be at most %d characters", rules.GetMaxLen())
	case len(rules.GetIn()) > 0 && !slices.Contains(rules.GetIn(), v):
		return "must be one of " + strings.Join(rules.GetIn(), ", ")
	case length < rules.GetMinLen() || rules.HasPattern() && !matches(rules.GetPattern(), v):
		return cmp.Or(inWords, "must not be empty")
	}
	return ""
}

// patterns are the compiled patterns of the schema.
var patterns sync.Map

func matches(pattern, text string) bool {
	known, _ := patterns.Load(pattern)
	compiled, ok := known.(*regexp.Regexp)
	if !ok {
		compiled = regexp.MustCompile(pattern)
		patterns.Store(pattern, compiled)
	}
	return compiled.MatchString(text)
}

// limits are how the schema limits numbers and durations.
var limits = []struct {
	rule  protoreflect.Name
	words string
	keeps func(n, limit float64) bool
}{
	{"gt", "greater than ", func(n, limit float64) bool { return n > limit }},
	{"gte", "at least ", func(n, limit float64) bool { return n >= limit }},
	{"lt", "less than ", func(n, limit float64) bool { return n < limit }},
	{"lte", "at most ", func(n, limit float64) bool { return n <= limit }},
}

// outside returns which limits a number must keep, or "" if it keeps all.
func outside(n float64, rules *validate.FieldRules, unit string) string {
	kind := rules.ProtoReflect().WhichOneof(rules.ProtoReflect().Descriptor().Oneofs().ByName("type"))
	if kind == nil {
		return ""
	}
	of, keeps := rules.ProtoReflect().Get(kind).Message(), true
	var words []string
	for _, l := range limits {
		if rule := of.Descriptor().Fields().ByName(l.rule); of.Has(rule) {
			limit := asNumber(of.Get(rule))
			words = append(words, l.words+strconv.FormatFloat(limit, 'f', -1, 64)+unit)
			keeps = keeps && l.keeps(n, limit)
		}
	}
	if keeps {
		return ""
	}
	return "must be " + strings.Join(words, " and ")
}

// asNumber returns a limit as a number, of seconds if it is a duration.
func asNumber(v protoreflect.Value) float64 {
	switch v := v.Interface().(type) {
	case float64:
		return v
	case uint32:
		return float64(v)
	case uint64:
		return float64(v)
	case protoreflect.Message:
		if d, is := v.Interface().(*durationpb.Duration); is {
			return d.AsDuration().Seconds()
		}
	}
	panic(fmt.Sprintf("document: the limit %v is of no known kind", v))
}

// brokenList returns what a list must be instead, or "" if it keeps the rules.
func brokenList(list protoreflect.List, field protoreflect.FieldDescriptor) string {
	rules, n := rulesOf(field).GetRepeated(), uint64(list.Len())
	switch {
	case rules.HasMinItems() && rules.HasMaxItems() && (n < rules.GetMinItems() || n > rules.GetMaxItems()):
		return fmt.Sprintf("must list %d to %d %s", rules.GetMinItems(), rules.GetMaxItems(), field.TextName())
	case rules.HasMaxItems() && n > rules.GetMaxItems():
		return fmt.Sprintf("must list at most %d %s", rules.GetMaxItems(), field.TextName())
	case rules.GetUnique() && repeats(list):
		return "must not list a value twice"
	}
	return ""
}

func repeats(list protoreflect.List) bool {
	seen := make(map[any]bool, list.Len())
	for i := range list.Len() {
		seen[list.Get(i).Interface()] = true
	}
	return len(seen) < list.Len()
}

// Missing is what a message lacks by the schema's rules.
type Missing struct {
	// Fields of which one must be given.
	Fields []string
	// Several may be given of the fields.
	Several bool
	// Must says what the field must be, or that none of several is given.
	Must string
}

// NeededBy returns what an empty message lacks.
func NeededBy(message protoreflect.MessageDescriptor) (all []Missing) {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if must := needed(field); must != "" {
			all = append(all, Missing{Fields: []string{field.TextName()}, Must: must})
		}
	}
	for i := range message.Oneofs().Len() {
		group := message.Oneofs().Get(i)
		rules, _ := proto.GetExtension(group.Options(), validate.E_Oneof).(*validate.OneofRules)
		words, _ := proto.GetExtension(group.Options(), spatev1.E_Choose).(string)
		if rules.GetRequired() {
			all = append(all, Missing{Fields: fieldNames(group.Fields()), Must: words})
		}
	}
	for _, group := range Choices(message) {
		if group.GetRequired() {
			all = append(all, Missing{Fields: group.GetFields(), Must: noneOf(group.GetFields()) + "give one of them"})
		}
	}
	if some, _ := proto.GetExtension(message.Options(), spatev1.E_SomeOf).([]string); some != nil {
		all = append(all, Missing{Fields: some, Several: true, Must: noneOf(some) + "give at least one"})
	}
	return all
}

// Choices returns the groups of fields of which a message has at most one.
func Choices(message protoreflect.MessageDescriptor) []*validate.MessageOneofRule {
	rules, _ := proto.GetExtension(message.Options(), validate.E_Message).(*validate.MessageRules)
	return rules.GetOneof()
}

// noneOf says that no field is given.
func noneOf(fields []string) string {
	if len(fields) == 2 {
		return "has neither " + fields[0] + " nor " + fields[1] + ": "
	}
	return "has none of " + strings.Join(fields, ", ") + ": "
}

// needed returns what a field that is not given must be, or "" if it may be left out.
func needed(field protoreflect.FieldDescriptor) string {
	rules := rulesOf(field)
	switch {
	case rules.GetRequired() && field.Message().FullName() == "google.protobuf.Duration":
		return "must be a duration like 30s"
	case rules.GetRequired():
		return inWords(field)
	case field.IsList() && rules.GetRepeated().GetMinItems() > 0:
		return fmt.Sprintf("must list %d to %d %s", rules.GetRepeated().GetMinItems(), rules.GetRepeated().GetMaxItems(),
			field.TextName())
	case field.IsList() || field.IsMap() || field.HasPresence() ||
		rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE:
		return ""
	}
	return broken(field.Default().Interface(), rules, inWords(field))
}

// complete checks which fields of a message are given together, and which are missing. A field that is misspelt is not
// missing.
func (s *shape) complete(path string, node *yaml.Node, of protoreflect.Message) {
	given := func(field string) bool { return s.at[join(path, field)] != nil }
	for _, group := range Choices(of.Descriptor()) {
		fields := slices.DeleteFunc(slices.Clone(group.GetFields()), func(f string) bool { return !given(f) })
		for _, more := range fields[min(1, len(fields)):] {
			s.breaks(join(path, more), s.at[join(path, more)], "give %s or %s, not both", fields[0], more)
		}
	}
	fields := of.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		at := join(path, field.TextName())
		for _, other := range Needs(field) {
			if given(field.TextName()) && !given(other.GetField()) {
				s.breaks(at, s.at[at], "works only with %s", because(other))
			}
		}
		for _, other := range relations(field, spatev1.E_Excludes) {
			if of.Has(field) && of.Has(fields.ByTextName(other.GetField())) {
				s.breaks(at, s.at[at], "does not work with %s", because(other))
			}
		}
	}
	for _, lack := range NeededBy(of.Descriptor()) {
		f := Finding{Path: path, In: path, Cures: lack.Fields, Message: lack.Must, node: node, absent: true}
		if len(lack.Fields) == 1 {
			f.Path, f.Message = join(path, lack.Fields[0]), "is missing: it "+lack.Must
		}
		if !slices.ContainsFunc(lack.Fields, given) && !s.explained(f) {
			s.keep(f)
		}
	}
}

// Needs returns the fields that a field works only with.
func Needs(field protoreflect.FieldDescriptor) []*spatev1.Relation {
	return relations(field, spatev1.E_Needs)
}

func relations(field protoreflect.FieldDescriptor, kind protoreflect.ExtensionType) []*spatev1.Relation {
	all, _ := proto.GetExtension(field.Options(), kind).([]*spatev1.Relation)
	return all
}

// because names the field of a relation, with its reason.
func because(r *spatev1.Relation) string {
	if r.GetWhy() == "" {
		return r.GetField()
	}
	return r.GetField() + ": " + r.GetWhy()
}
