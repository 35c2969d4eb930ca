package document

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// eachMessage calls fn with the messages that a plan consists of.
func eachMessage(fn func(protoreflect.MessageDescriptor)) {
	seen := make(map[protoreflect.FullName]bool)
	var visit func(m protoreflect.MessageDescriptor)
	visit = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || m.IsMapEntry() || strings.HasPrefix(string(m.FullName()), "google.") {
			return
		}
		seen[m.FullName()] = true
		fn(m)
		for i := range m.Fields().Len() {
			if inner := m.Fields().Get(i).Message(); inner != nil {
				visit(inner)
			}
		}
	}
	visit((&spatev1.Plan{}).ProtoReflect().Descriptor())
}

// violated returns the fields of which protovalidate says that a message breaks their rules. A message whose choice is
// missing has no such field.
func violated(t *testing.T, m proto.Message) (fields []string) {
	t.Helper()
	err := protovalidate.Validate(m)
	var invalid *protovalidate.ValidationError
	if err != nil && !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	if invalid == nil {
		return nil
	}
	for _, v := range invalid.ToProto().GetViolations() {
		name, _, _ := strings.Cut(protovalidate.FieldPathString(v.GetField()), "[")
		fields = append(fields, name)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// TestNeededFields: what an empty message lacks is what protovalidate says.
func TestNeededFields(t *testing.T) {
	eachMessage(func(m protoreflect.MessageDescriptor) {
		var fields []string
		for _, lack := range NeededBy(m) {
			name := lack.Fields[0]
			switch group := m.Fields().ByTextName(name).ContainingOneof(); {
			case lack.Several:
				continue // A rule of our own.
			case group != nil:
				name = string(group.Name())
			case len(lack.Fields) > 1:
				name = ""
			}
			fields = append(fields, name)
			if !strings.HasPrefix(lack.Must, "must ") && !strings.HasPrefix(lack.Must, "has ") {
				t.Errorf("%s: a missing %v says %q", m.Name(), lack.Fields, lack.Must)
			}
		}
		slices.Sort(fields)
		if want := violated(t, dynamicpb.NewMessage(m)); !slices.Equal(slices.Compact(fields), want) {
			t.Errorf("an empty %s lacks %q, protovalidate says %q", m.Name(), fields, want)
		}
	})
}

// TestRelationsNameFields: a field that another one needs or excludes, or that belongs to a group, is one of its
// message.
func TestRelationsNameFields(t *testing.T) {
	relationsFound := 0
	eachMessage(func(m protoreflect.MessageDescriptor) {
		var names []string
		for _, group := range Choices(m) {
			names = append(names, group.GetFields()...)
		}
		for _, lack := range NeededBy(m) {
			names = append(names, lack.Fields...)
		}
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			for _, other := range slices.Concat(Needs(field), relations(field, spatev1.E_Excludes)) {
				names = append(names, other.GetField())
				relationsFound++
			}
		}
		for _, name := range names {
			if m.Fields().ByTextName(name) == nil {
				t.Errorf("%s has no field %q", m.Name(), name)
			}
		}
	})
	if relationsFound < 30 {
		t.Errorf("only %d relations", relationsFound)
	}
}

// TestRulesOfValues compares what is said about values at and beyond the limits of each field with protovalidate.
func TestRulesOfValues(t *testing.T) {
	compared, refused := 0, 0
	eachMessage(func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			if rulesOf(field) == nil || field.IsMap() || field.Message() != nil && candidates(field) == nil {
				continue
			}
			for _, v := range candidates(field) {
				filled, rules := dynamicpb.NewMessage(m), rulesOf(field)
				if field.IsList() {
					rules = rules.GetRepeated().GetItems()
					filled.Mutable(field).List().Append(protoreflect.ValueOf(v))
				} else {
					filled.Set(field, protoreflect.ValueOf(v))
				}
				if duration, is := v.(protoreflect.Message); is {
					v = duration.Interface()
				}
				wrong := broken(v, rules, inWords(field))
				want := slices.Contains(violated(t, filled), string(field.Name()))
				if text := fmt.Sprint(v); rules.GetIgnore() != 0 && (text == "" || text == "0") || tooFew(field) {
					continue // Here, a value that is given is not ignored.
				}
				compared++
				if want {
					refused++
				}
				if want != (wrong != "") {
					t.Errorf("%s with %v: %q, protovalidate refuses: %v", field.FullName(), v, wrong, want)
				}
			}
		}
	})
	if compared < 1000 || refused < 200 {
		t.Errorf("only %d values compared, %d of them refused", compared, refused)
	}
}

// tooFew reports whether a list needs more than one value.
func tooFew(field protoreflect.FieldDescriptor) bool {
	return rulesOf(field).GetRepeated().GetMinItems() > 1
}

// candidates are values of a field, some of which most rules refuse. Nil: the field is of another message.
func candidates(field protoreflect.FieldDescriptor) (all []any) {
	for _, n := range []float64{-1, 0, 0.5, 1, 2, 10, 60, 63, 64, 65, 100, 101, 512, 600, 1000, 1001, 1024, 3600,
		10_000, 10_001, 65_535, 65_536, 86_400, 86_401, 604_800, 1e6, 1e6 + 1, 1e7,
		1e7 + 1, 1 << 24, 1<<24 + 1, 1e9, 1e9 + 1} {
		whole := n == math.Trunc(n) && n >= 0
		switch field.Kind() {
		case protoreflect.DoubleKind:
			all = append(all, n)
		case protoreflect.Uint32Kind:
			if whole {
				all = append(all, uint32(n))
			}
		case protoreflect.Uint64Kind:
			if whole {
				all = append(all, uint64(n))
			}
		case protoreflect.MessageKind:
			if field.Message().FullName() == "google.protobuf.Duration" {
				all = append(all, durationpb.New(time.Duration(n*float64(time.Second))).ProtoReflect())
			}
		case protoreflect.StringKind:
			all = append(all, strings.Repeat("a", int(min(max(n, 0), 5000))))
		}
	}
	if field.Kind() == protoreflect.StringKind {
		for _, text := range []string{"fail", "turns", "auto", "text", "env:KEY", "env:9", "file:", "file:a", "http://h", "h:1",
			"[::1]:80", "https://h/ b", "http://u@h", "keep", "linear", "-a", "a b", "a/b", "/x", "ttft", "vllm:*", "é", "*"} {
			all = append(all, text)
		}
	}
	return all
}
