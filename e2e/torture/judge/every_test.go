package judge

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// unchecked are the fields that the judge reads but that may differ without being wrong, each with its reason.
var unchecked = map[string]string{
	`^Run\.Restarts$`:                                   "a coordinator may be killed again before it has begun",
	`^Run\.Reason`:                                      "words",
	`^Stages\[\d\]\.Agents\[\d\]\.Failure`:              "words; what was lost stands beside them",
	`^Stages\[\d\]\.StartTime$`:                         "checked against the server's log, by " + apart.String(),
	`^Stages\[\d\]\.(Requests|Agents\[\d\])\.NeverSent`: "follows from what is missing",
	`^Stages\[\d\]\.Agents\[\d\]\.Weight$`:              "rows tell who sent what",
	`^incomplete .*\.Started$`:                          "what was under way at a loss has no row: no more than the server had",
}

// The judge reports any change of a number, word or list in a true result: it trusts nothing that it reads.
func TestEveryFieldIsChecked(t *testing.T) {
	for _, seed := range []uint64{complete, constant} {
		e := evidence(t, seed)
		fields := 0
		walk(reflect.ValueOf(&e.Results).Elem(), "", func(path string, v reflect.Value) {
			if whole := e.Results.Run.Complete; reason(path) != "" || !whole && reason("incomplete "+path) != "" {
				return
			}
			was := reflect.New(v.Type()).Elem()
			was.Set(v)
			for _, change := range changesOf(v) {
				fields++
				v.Set(change)
				if len(Judge(e).Wrong) == 0 {
					t.Errorf("seed %d: %s is %v instead of %v, and that is not seen", seed, path,
						text(change), text(was))
				}
			}
			v.Set(was)
		})
		if fields < 150 || len(Judge(e).Wrong) > 0 {
			t.Errorf("seed %d: %d changes, and in the end %v is wrong", seed, fields, Judge(e).Wrong)
		}
		t.Logf("seed %d: %d changes, each seen", seed, fields)
	}
}

func reason(path string) string {
	for pattern, why := range unchecked {
		if regexp.MustCompile(pattern).MatchString(path) {
			return why
		}
	}
	return ""
}

// walk visits each field that holds a value, and the fields within.
func walk(v reflect.Value, path string, show func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := path + "." + f.Name
			if f.Anonymous {
				name = path
			}
			walk(v.Field(i), strings.TrimPrefix(name, "."), show)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), show)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), path, show)
		}
	}
	show(path, v)
}

// changesOf returns other values for a field, each well beyond rounding.
func changesOf(v reflect.Value) (out []reflect.Value) {
	add := func(value any) { out = append(out, reflect.ValueOf(value).Convert(v.Type())) }
	switch v.Kind() {
	case reflect.Bool:
		add(!v.Bool())
	case reflect.String:
		add(v.String() + "x")
	case reflect.Int:
		add(v.Int() + 1)
	case reflect.Int64:
		add(v.Int() + v.Int()/20 + 20e6)
	case reflect.Uint32, reflect.Uint64:
		add(v.Uint() + 1)
	case reflect.Float64:
		add(v.Float()*1.05 + 0.02)
	case reflect.Slice:
		if n := v.Len(); n > 0 {
			out = append(out, v.Slice(0, n-1))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out = append(out, reflect.Zero(v.Type()))
		}
	}
	return out
}

// text returns a value for people.
func text(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v.Interface()
}

// freeOfRows are the fields of rows that may differ.
var freeOfRows = map[string]bool{
	"EndNs": true, // the last token counts; the end is checked only roughly
}

// The same holds for each field of a row.
func TestEveryFieldOfARowIsChecked(t *testing.T) {
	e := evidence(t, complete)
	for _, i := range []int{0, len(e.Rows) / 2, len(e.Rows) - 1} {
		walk(reflect.ValueOf(&e.Rows[i]).Elem(), "", func(path string, v reflect.Value) {
			was := reflect.New(v.Type()).Elem()
			was.Set(v)
			for _, change := range changesOf(v) {
				v.Set(change)
				if len(Judge(e).Wrong) == 0 && !freeOfRows[path] {
					t.Errorf("row %d: %s is %v instead of %v, and that is not seen", i, path, text(change), text(was))
				}
			}
			v.Set(was)
		})
	}
}
