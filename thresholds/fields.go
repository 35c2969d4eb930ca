package thresholds

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/words"
)

// value is a number, or a text.
type value struct {
	number float64
	text   string
}

// field is one number or text of a stage.
type field struct {
	path    [][]int  // Indices in the struct, and in those that it points to.
	key     string   // Of the map that the path ends at. Empty: it ends at a value.
	isText  bool     // A text, or true or false.
	choices []string // All texts that it can have. Nil: any.
}

// record is what fields are read from: a stage, or a part of its mixture.
type record struct{ reflect.Value }

// recordOf returns a stage, or its part with a name. Empty: the stage itself. Nil: its mixture has no such part, or it
// has none.
func recordOf(s *results.StageResult, part string) *record {
	if part == "" {
		return &record{reflect.ValueOf(s).Elem()}
	}
	for i := range s.Parts {
		if p := &s.Parts[i]; p.Name == part {
			return &record{reflect.ValueOf(p).Elem()}
		}
	}
	return nil
}

// read returns the value of a field, and false if it is null.
func (f field) read(r *record) (value, bool) {
	v := r.Value
	for _, index := range f.path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return value{}, false
			}
			v = v.Elem()
		}
		v = v.FieldByIndex(index)
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return value{}, false
		}
		v = v.Elem()
	}
	return f.scalar(v), true
}

// Number returns a number of a stage, or of a part of its mixture, by its name in results.json. Nil: it is not known.
func Number[R results.StageResult | results.PartResult](r *R, name string) *float64 {
	names := ofStage
	if _, part := any(r).(*results.PartResult); part {
		names = ofPart
	}
	f, found := names.find(name)
	if !found {
		panic("thresholds: there is no field " + name)
	}
	v, known := f.read(&record{reflect.ValueOf(r).Elem()})
	if !known {
		return nil
	}
	return &v.number
}

func (f field) scalar(v reflect.Value) value {
	switch {
	case f.key != "": // A class of errors that is not in the map did not occur.
		if n := v.MapIndex(reflect.ValueOf(f.key)); n.IsValid() {
			return value{number: float64(n.Uint())}
		}
		return value{}
	case v.Kind() == reflect.Bool:
		return value{text: fmt.Sprint(v.Bool())}
	case v.CanUint():
		return value{number: float64(v.Uint())}
	case v.CanInt():
		return value{number: float64(v.Int())}
	case v.CanFloat():
		return value{number: v.Float()}
	}
	return value{text: v.String()}
}

// names are the names of a kind of record in results.json.
type names struct {
	record   string // The kind of record in words.
	fields   map[string]field
	countsOf map[string][][]int // Maps of counts by name, such as errors.
	groups   map[string]bool    // Names of objects and lists.
	// short are names that may be left shorter than in results.json.
	short map[string]string
}

var (
	ofStage = namesOf("a stage", reflect.TypeFor[results.StageResult](), map[string]string{"verdict": "trust.verdict"})
	ofPart  = namesOf("a part", reflect.TypeFor[results.PartResult](), nil)
)

func namesOf(record string, t reflect.Type, short map[string]string) *names {
	n := &names{record, map[string]field{}, map[string][][]int{}, map[string]bool{}, short}
	n.collect("", t, nil)
	return n
}

// collect adds the fields of a struct. Lists have one value for each agent, endpoint or region, and none of the stage.
func (n *names) collect(prefix string, t reflect.Type, path [][]int) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		name = prefix + name
		at := append(slices.Clone(path), f.Index)
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case kind.Kind() == reflect.Struct:
			n.groups[name] = true
			n.collect(name+".", kind, at)
		case kind.Kind() == reflect.Map && kind.Elem().Kind() == reflect.Uint64:
			n.groups[name], n.countsOf[name] = true, at
		case kind.Kind() == reflect.Map, kind.Kind() == reflect.Slice:
			n.groups[name] = true
		default:
			n.fields[name] = field{path: at, isText: isText(kind), choices: choicesOf(kind)}
		}
	}
}

func isText(t reflect.Type) bool { return t.Kind() == reflect.String || t.Kind() == reflect.Bool }

// choicesOf returns all texts that a field of a type can have, or nil if it can have any, or is a number.
func choicesOf(t reflect.Type) []string {
	switch {
	case t == reflect.TypeFor[trust.Verdict]():
		return []string{string(trust.Valid), string(trust.Suspect), string(trust.Invalid)}
	case t.Kind() == reflect.Bool:
		return []string{"true", "false"}
	}
	return nil
}

// find returns the field of a name.
func (n *names) find(name string) (field, bool) {
	if f, found := n.fields[cmp.Or(n.short[name], name)]; found {
		return f, true
	}
	group, key, _ := strings.Cut(name, ".")
	if path, found := n.countsOf[group]; found && key != "" {
		return field{path: path, key: key}, true
	}
	return field{}, false
}

// unknown says what a name that is not a field was probably meant to be.
func (n *names) unknown(name string) string {
	if inner := n.inner(name); len(inner) > 0 {
		return fmt.Sprintf("%s has several values: give one of %s", name, strings.Join(inner, ", "))
	}
	_, ofWhole := ofStage.find(name)
	switch {
	case n.countsOf[name] != nil:
		return fmt.Sprintf("%s has a number for each class: give one, such as %s.http_429, or use requests.failed",
			name, name)
	case n == ofPart && strings.HasPrefix(name, "parts."):
		return "the threshold names its part already: give the field alone, such as ttft_ms.p99, without parts"
	case name == "parts" || strings.HasPrefix(name, "parts."):
		return "parts is a list: name one part in the threshold, such as {that: ttft_ms.p99 < 500, part: chat}"
	case n.groups[name]:
		return fmt.Sprintf("%s is a list: a threshold needs a value of %s itself", name, n.record)
	case ofWhole:
		return fmt.Sprintf("a part has no field %s, only the whole stage has: leave out part", name)
	}
	known := slices.Sorted(maps.Keys(n.fields))
	text := fmt.Sprintf("there is no field %s in %s of results.json", name, n.record)
	if near := words.Nearest(name, append(known, slices.Sorted(maps.Keys(n.short))...)); near != "" {
		return text + "; did you mean " + near + "?"
	}
	return text + "; there are, among others, ttft_ms.p99, tpot_ms.mean, request_throughput, goodput.share, " +
		"requests.failed and errors.http_429"
}

// inner returns the names of the values right below an object.
func (n *names) inner(group string) (inner []string) {
	for name := range n.fields {
		if rest, within := strings.CutPrefix(name, group+"."); within && !strings.Contains(rest, ".") {
			inner = append(inner, name)
		}
	}
	slices.Sort(inner)
	return inner
}
