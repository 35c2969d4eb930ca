package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// document is what the tests read of openapi.yaml.
type document struct {
	Paths      map[string]map[string]yaml.Node
	Components struct {
		Schemas map[string]struct {
			Enum       []string
			Properties map[string]any
		}
	}
}

func readDocument(t *testing.T) (d document) {
	t.Helper()
	if err := yaml.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The document has each route with the parameters of its query, and no other.
func TestDocumentHasTheRoutes(t *testing.T) {
	var described, served []string
	for path, methods := range readDocument(t).Paths {
		for method, does := range methods {
			if method == "parameters" {
				continue
			}
			var d struct {
				Parameters  []struct{ Name, In string }
				RequestBody map[string]any `yaml:"requestBody"`
			}
			if err := does.Decode(&d); err != nil {
				t.Fatal(err)
			}
			text := strings.ToUpper(method) + " " + root + path
			for _, p := range d.Parameters {
				if p.In == "query" {
					text += " " + p.Name
				}
			}
			if d.RequestBody != nil {
				text += ", body"
			}
			described = append(described, text)
		}
	}
	for _, c := range (&Server{}).api() {
		text := strings.TrimSpace(c.method + " " + c.path + " " + c.takes)
		if c.body {
			text += ", body"
		}
		served = append(served, text)
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described\n%s\nserved\n%s", strings.Join(described, "\n"), strings.Join(served, "\n"))
	}
}

// own are the schemas that no message of the protocol stands behind.
var own = []string{"Problem", "Done", "Files", "File"}

// The schemas have the fields and the values of the protocol's messages.
func TestDocumentHasTheFields(t *testing.T) {
	for name, schema := range readDocument(t).Components.Schemas {
		if slices.Contains(own, name) {
			continue
		}
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("spate.v1." + name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want, got []string
		switch d := found.(type) {
		case protoreflect.MessageDescriptor:
			for i := range d.Fields().Len() {
				want = append(want, d.Fields().Get(i).JSONName())
			}
			for field := range schema.Properties {
				got = append(got, field)
			}
		case protoreflect.EnumDescriptor:
			for i := range d.Values().Len() {
				want = append(want, string(d.Values().Get(i).Name()))
			}
			got = schema.Enum
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%s: the document has %v, the protocol %v", name, got, want)
		}
	}
}

// schemas validates answers against openapi.yaml.
type schemas struct {
	document map[string]any
	compiler *jsonschema.Compiler
}

func readSchemas(t *testing.T) schemas {
	t.Helper()
	d := schemas{compiler: jsonschema.NewCompiler()}
	if err := yaml.Unmarshal(openAPI, &d.document); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(d.document)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.compiler.AddResource("openapi.json", asJSON); err != nil {
		t.Fatal(err)
	}
	return d
}

// validate returns how a body is not what the document says about an answer with a status.
func (d schemas) validate(method, path string, status int, body string) error {
	of, _ := d.at("paths", path, strings.ToLower(method), "responses").(map[string]any)
	key := strconv.Itoa(status)
	if of[key] == nil {
		key = key[:1] + "XX"
	}
	where := []string{"paths", path, strings.ToLower(method), "responses", key}
	if at, is := d.at(append(where, "$ref")...).(string); is {
		where = strings.Split(strings.TrimPrefix(at, "#/"), "/")
	}
	content, _ := d.at(append(where, "content")...).(map[string]any)
	for kind := range content {
		pointer := "#"
		for _, part := range append(where, "content", kind, "schema") {
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
		}
		schema, err := d.compiler.Compile("openapi.json" + pointer)
		if err != nil {
			return err
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			return err
		}
		return schema.Validate(value)
	}
	return fmt.Errorf("the document has no answer %d to %s %s", status, method, path)
}

// at returns what is at a place of the document, nil if there is nothing.
func (d schemas) at(path ...string) any {
	var at any = d.document
	for _, part := range path {
		of, _ := at.(map[string]any)
		at = of[part]
	}
	return at
}

// ask sends a request to a path of the document whose parameter in braces has a value, and reads the answer, which must
// have a status and be what the document says. Nil: the answer is not a message of the protocol.
func (s *site) ask(d schemas, method, path, value, body string, status int, into proto.Message) string {
	s.t.Helper()
	path, query, _ := strings.Cut(path, "?")
	a, text := s.do(method, root+parameter.ReplaceAllLiteralString(path, value)+"?"+query, body)
	if a.StatusCode != status {
		s.t.Errorf("%s %s: %s %s", method, path, a.Status, text)
		return text
	}
	if err := d.validate(method, path, status, text); err != nil {
		s.t.Errorf("%s %s: %v in %s", method, path, err, text)
	}
	if into != nil {
		if err := protojson.Unmarshal([]byte(text), into); err != nil {
			s.t.Errorf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return text
}

// parameter is the parameter of a path.
var parameter = regexp.MustCompile(`\{\w+\}`)

// Answers are what the document says.
func TestAnswersAreAsDescribed(t *testing.T) {
	s, d := start(t), readSchemas(t)
	var runs, queue spatev1.ListRunsResponse
	s.ask(d, "GET", "/runs", "", "", 200, &runs)
	if got := runs.GetRuns(); len(got) != 3 || got[1].GetRunId() != "live" ||
		got[1].GetState() != spatev1.RunState_RUN_STATE_RUNNING {
		t.Errorf("runs %v", got)
	}
	s.ask(d, "GET", "/queue", "", "", 200, &queue)
	if got := queue.GetRuns(); len(got) != 1 || got[0].GetRunId() != "later" {
		t.Errorf("queue %v", got)
	}
	var agents spatev1.ListAgentsResponse
	s.ask(d, "GET", "/agents", "", "", 200, &agents)
	if got := agents.GetAgents()[0]; got.GetAgent().GetName() != "a" || got.GetHeartbeat().GetInFlight() != 7 {
		t.Errorf("agents %v", got)
	}
	var run spatev1.RunSummary
	s.ask(d, "GET", "/runs/{id}", "old", "", 200, &run)
	if run.GetOutcome() != spatev1.Outcome_OUTCOME_DONE || run.GetBeginTime() != nil {
		t.Errorf("run %v", &run)
	}
	s.ask(d, "GET", "/runs/{id}", "none", "", 404, nil)
	var over spatev1.ReadHistoryResponse
	s.ask(d, "GET", "/history", "", "", 200, &over)
	if got := over.GetLines(); len(got) != 2 || got[1].GetPoints()[1].GetChange() != 0.3 {
		t.Errorf("history %v", got)
	}
}

// Requests that change something do what the document says.
func TestChangesAreAsDescribed(t *testing.T) {
	s, d := start(t), readSchemas(t)
	s.ask(d, "POST", "/runs/{id}/stop?immediately=true", "live", "", 200, nil)
	var submitted spatev1.SubmitRunResponse
	s.ask(d, "POST", "/runs?records=parquet", "", "name: x", 201, &submitted)
	if q := s.fake.plan; submitted.GetRunId() != "new" || string(q.GetPlanYaml()) != "name: x" ||
		q.GetRecords() != "parquet" || q.GetMinAgents() != 1 || q.GetAgentsTimeout().AsDuration() != time.Minute {
		t.Errorf("submitted %v %v", &submitted, q)
	}
	s.ask(d, "POST", "/runs", "", "", 400, nil)
	s.ask(d, "DELETE", "/runs/{id}", "old", "", 200, nil)
	for _, what := range []string{"cordon", "drain", "uncordon"} {
		s.ask(d, "POST", "/agents/{name}/"+what, "a", "", 200, nil)
	}
	if got := s.fake.called(); got != "stop live true submit submit remove old "+
		"a CORDON_CORDONED a CORDON_DRAINED a CORDON_UNSPECIFIED" {
		t.Errorf("called: %s", got)
	}
}
