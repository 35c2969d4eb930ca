package results

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
)

// schemaFile is the JSON Schema of results.json.
const schemaFile = "../../docs/results.schema.json"

// update rewrites the schema: go test ./aggregate/results -run Schema -update
var update = flag.Bool("update", false, "write docs/results.schema.json")

// schema is the part of JSON Schema that results.json needs.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // a name, or a list of names
	Ref         string             `json:"$ref,omitempty"`
	AnyOf       []*schema          `json:"anyOf,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Additional  any                `json:"additionalProperties,omitempty"` // false, or the schema of the values
	Items       *schema            `json:"items,omitempty"`
	Enum        []any              `json:"enum,omitempty"` // all allowed values
	Minimum     *int               `json:"minimum,omitempty"`
	Defs        map[string]*schema `json:"$defs,omitempty"`
}

// generator makes schemas from Go types. The comments of fields become descriptions.
type generator struct {
	*testing.T
	comments map[string]map[string]string // by package: "Type.Field" or "Type" -> comment
	defs     map[string]*schema
	types    map[string]reflect.Type // whose definition it is
}

// schemaOf returns the schema of a type.
func (g *generator) schemaOf(t reflect.Type) *schema {
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(g.schemaOf(t.Elem()))
	case reflect.Struct:
		return g.reference(t)
	case reflect.Slice:
		return &schema{Type: "array", Items: g.schemaOf(t.Elem())}
	case reflect.Map:
		return &schema{Type: "object", Additional: g.schemaOf(t.Elem())}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Float64:
		return &schema{Type: "number"}
	case reflect.Uint32, reflect.Uint64, reflect.Int:
		return &schema{Type: "integer", Minimum: new(int)}
	}
	panic("no schema for " + t.String())
}

// nullable returns a schema that also allows null.
func nullable(s *schema) *schema {
	if s.Ref != "" {
		return &schema{AnyOf: []*schema{s, {Type: "null"}}}
	}
	s.Type = []any{s.Type, "null"}
	return s
}

// reference returns a reference to the schema of a struct, and creates that schema if necessary.
func (g *generator) reference(t reflect.Type) *schema {
	switch g.types[t.Name()] {
	case nil:
		def := &schema{Type: "object", Description: g.comment(t, t.Name()), Properties: make(map[string]*schema),
			Additional: false}
		g.defs[t.Name()], g.types[t.Name()] = def, t
		g.addFields(def, t)
	case t:
	default:
		g.Fatalf("two types are called %s: %s and %s", t.Name(), g.types[t.Name()].PkgPath(), t.PkgPath())
	}
	return &schema{Ref: "#/$defs/" + t.Name()}
}

// addFields adds a struct's fields, including those of embedded structs.
func (g *generator) addFields(def *schema, t reflect.Type) {
	for field := range t.Fields() {
		if field.Anonymous {
			g.addFields(def, field.Type)
			continue
		}
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := g.schemaOf(field.Type)
		property.Description = g.comment(t, t.Name()+"."+field.Name)
		property.Enum = enumOf(field.Type, property.Description)
		def.Properties[name] = property
		if option != "omitempty" {
			def.Required = append(def.Required, name)
		}
	}
}

// enumOf returns the allowed values of a field: all verdicts, or the words that its comment lists. Nil: any value is
// allowed.
func enumOf(t reflect.Type, comment string) (values []any) {
	optional := t.Kind() == reflect.Pointer
	if optional {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[trust.Verdict]():
		values = []any{string(trust.Valid), string(trust.Suspect), string(trust.Invalid)}
	case t.Kind() == reflect.String:
		for sentence := range strings.SplitSeq(comment, ". ") {
			values = append(values, listed(sentence)...)
		}
	}
	if optional && values != nil {
		values = append(values, nil)
	}
	return values
}

var quoted = regexp.MustCompile(`"([a-z_]+)"`)

// listed returns the words in a sentence that lists words: "done", "stopped" or "failed".
func listed(sentence string) (words []any) {
	if strings.Contains(sentence, ` or "`) {
		for _, word := range quoted.FindAllStringSubmatch(sentence, -1) {
			words = append(words, word[1])
		}
	}
	return words
}

// comment returns the comment of a type, or of a field of it, on one line. name is "Type" or "Type.Field".
func (g *generator) comment(of reflect.Type, name string) string {
	pkg := of.PkgPath()
	if g.comments[pkg] == nil {
		g.comments[pkg] = packageComments(g.T, pkg)
	}
	return g.comments[pkg][name]
}

// packageComments reads the comments of the types in a package of this module, and of their fields.
func packageComments(t *testing.T, pkg string) map[string]string {
	comments := make(map[string]string)
	files, err := filepath.Glob(filepath.Join("..", "..", strings.TrimPrefix(pkg, "github.com/spate-load/spate/"), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			addComments(comments, decl)
		}
	}
	return comments
}

// addComments adds the comments of one declaration.
func addComments(comments map[string]string, decl ast.Decl) {
	gen, ok := decl.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range gen.Specs {
		typeSpec, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		comments[typeSpec.Name.Name] = oneLine(gen.Doc.Text())
		if fields, ok := typeSpec.Type.(*ast.StructType); ok {
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					comments[typeSpec.Name.Name+"."+name.Name] = oneLine(field.Doc.Text())
				}
			}
		}
	}
}

// oneLine joins the lines of a comment.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// generated returns the schema of Result.
func generated(t *testing.T) *schema {
	g := &generator{T: t, comments: make(map[string]map[string]string), defs: make(map[string]*schema),
		types: make(map[string]reflect.Type)}
	root := g.schemaOf(reflect.TypeFor[Result]())
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "results.json of a Spate run"
	root.Defs = g.defs
	return root
}

func TestSchemaIsThatOfTheResult(t *testing.T) {
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(generated(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/results.schema.json is not that of the result: go test ./aggregate/results -run Schema -update")
	}
}

func TestEveryFieldOfTheResultIsExplained(t *testing.T) {
	for name, def := range generated(t).Defs {
		for field, property := range def.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s has no comment", name, field)
			}
		}
	}
}

// check returns how a value violates a schema.
func (s *schema) check(root *schema, value any, path string) (wrong []string) {
	if s.Ref != "" {
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].check(root, value, path)
	}
	if s.AnyOf != nil {
		if slices.ContainsFunc(s.AnyOf, func(o *schema) bool { return len(o.check(root, value, path)) == 0 }) {
			return nil
		}
		return []string{path + ": none of the forms"}
	}
	if got := typeName(value); !s.allows(got) {
		return []string{fmt.Sprintf("%s: %s, not %v", path, got, s.Type)}
	}
	if s.Enum != nil && !slices.Contains(s.Enum, value) {
		return []string{fmt.Sprintf("%s: %v, not of %v", path, value, s.Enum)}
	}
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			wrong = append(wrong, s.Items.check(root, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case map[string]any:
		wrong = append(wrong, s.checkObject(root, v, path)...)
	}
	return wrong
}

// checkObject checks an object's properties.
func (s *schema) checkObject(root *schema, object map[string]any, path string) (wrong []string) {
	for _, name := range s.Required {
		if _, there := object[name]; !there {
			wrong = append(wrong, path+"."+name+": not there")
		}
	}
	for name, value := range object {
		property := s.Properties[name]
		if property == nil {
			property, _ = s.Additional.(*schema)
		}
		if property == nil {
			wrong = append(wrong, path+"."+name+": not known")
			continue
		}
		wrong = append(wrong, property.check(root, value, path+"."+name)...)
	}
	return wrong
}

// allows reports whether the schema allows a type.
func (s *schema) allows(name string) bool {
	types, ok := s.Type.([]any)
	if !ok {
		types = []any{s.Type}
	}
	return slices.Contains(types, any(name)) || name == "integer" && slices.Contains(types, any("number"))
}

// typeName returns JSON Schema's name for the type of a decoded value.
func typeName(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE-") {
			return "number"
		}
		return "integer"
	}
	return "unknown"
}

func TestResultsConformToTheSchema(t *testing.T) {
	root := generated(t)
	full, empty, timely := fixture.StageRecord(0, 2), fixture.StageRecord(1, 0), fixture.StageRecord(2, 1)
	timely.Stage.Load = fixture.Timed(time.Minute)
	requests := fixture.SteadyRequests(2, 50)
	requests[4] = fixture.Request{Start: 1e9, Class: 4, Status: 500}
	all := fixture.Recorded(full, requests, fixture.EndWindow)
	r := Result{Thresholds: []Threshold{{From: "plan", Stages: []ThresholdStage{{}}}}, Stages: []StageResult{
		OfStage(merged(t, full, all), full), OfStage(merged(t, full, all[:1]), full),
		OfStage(merge.NewStage(empty), empty), OfStage(merge.NewStage(timely), timely),
	}}
	r.Run = runResult(fixture.RunRecord(3), nil, r.Stages)
	r.Repeats = []Repeats{{Verdict: trust.Valid, Stages: []uint32{0}, LeftOut: []uint32{}, Spreads: []RepeatSpread{{}}}}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	decode := func(data []byte) (value any) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	if wrong := root.check(root, decode(data), "results"); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	for from, to := range map[string]string{
		`"target":`: `"goal":`, `"complete":true`: `"complete":1`, `"http_500":1`: `"http_500":"1"`,
		`"stages":[`:          `"stages":[null,`,
		`"verdict":"SUSPECT"`: `"verdict":"GOOD"`, `"outcome":"done"`: `"outcome":"OUTCOME_DONE"`,
	} {
		if !strings.Contains(string(data), from) {
			t.Errorf("there is no %s to break", from)
		}
		broken := decode([]byte(strings.Replace(string(data), from, to, 1)))
		if len(root.check(root, broken, "results")) == 0 {
			t.Errorf("%s instead of %s conforms", to, from)
		}
	}
}

// docs/results.md, which explains results.json, names all fields of it, but for counters that docs/influxdb.md has.
func TestEveryFieldIsInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	counters, err := os.ReadFile("../../docs/influxdb.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, def := range generated(t).Defs {
		for field := range def.Properties {
			if name == "Streams" && strings.Contains(string(counters), "| `"+field+"` |") {
				continue
			}
			if !strings.Contains(string(page), "`"+field) && !strings.Contains(string(page), "."+field+"`") &&
				!strings.Contains(string(page), `"`+field+`"`) {
				t.Errorf("docs/results.md does not name %s.%s", name, field)
			}
		}
	}
}
