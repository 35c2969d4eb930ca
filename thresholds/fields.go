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
	"github.com/spate-load/spate/internal/nearest"
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

// record is the stage that fields are read from.
type record struct{ reflect.Value }

func recordOf(s *results.StageResult) *record { return &record{reflect.ValueOf(s).Elem()} }

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

// The names of a stage in results.json.
var (
	fields   = map[string]field{}
	countsOf = map[string][][]int{} // Maps of counts by name, such as errors.
	groups   = map[string]bool{}    // Names of objects and lists.
	// short are names that may be left shorter than in results.json.
	short = map[string]string{"verdict": "trust.verdict"}
)

func init() { collect("", reflect.TypeFor[results.StageResult](), nil) }

// collect adds the fields of a struct. Lists have one value for each agent, endpoint or region, and none of the stage.
func collect(prefix string, t reflect.Type, path [][]int) {
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
			groups[name] = true
			collect(name+".", kind, at)
		case kind.Kind() == reflect.Map && kind.Elem().Kind() == reflect.Uint64:
			groups[name], countsOf[name] = true, at
		case kind.Kind() == reflect.Map, kind.Kind() == reflect.Slice:
			groups[name] = true
		default:
			fields[name] = field{path: at, isText: isText(kind), choices: choicesOf(kind)}
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
func find(name string) (field, bool) {
	if f, found := fields[cmp.Or(short[name], name)]; found {
		return f, true
	}
	group, key, _ := strings.Cut(name, ".")
	if path, found := countsOf[group]; found && key != "" {
		return field{path: path, key: key}, true
	}
	return field{}, false
}

// unknownField says what a name that is not a field was probably meant to be.
func unknownField(name string) string {
	if inner := innerNames(name); len(inner) > 0 {
		return fmt.Sprintf("%s has several values: give one of %s", name, strings.Join(inner, ", "))
	}
	switch {
	case countsOf[name] != nil:
		return fmt.Sprintf("%s has a number for each class: give one, such as %s.http_429, or use requests.failed",
			name, name)
	case groups[name]:
		return name + " is a list: a threshold needs a value of the stage itself"
	}
	known := slices.Sorted(maps.Keys(fields))
	text := fmt.Sprintf("there is no field %s in a stage of results.json", name)
	if near := nearest.To(name, append(known, slices.Sorted(maps.Keys(short))...)); near != "" {
		return text + "; did you mean " + near + "?"
	}
	return text + "; there are, among others, ttft_ms.p99, tpot_ms.mean, request_throughput, goodput.share, " +
		"requests.failed, errors.http_429 and verdict"
}

// innerNames returns the names of the values right below an object.
func innerNames(group string) (names []string) {
	for name := range fields {
		if rest, within := strings.CutPrefix(name, group+"."); within && !strings.Contains(rest, ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
