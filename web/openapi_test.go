package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/spate-load/spate/web/client"
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

// The client that is generated from the document reads what is answered, without a field that it does not know.
func TestGeneratedClient(t *testing.T) {
	s := start(t)
	c, err := client.NewClientWithResponses(s.URL+root, client.WithHTTPClient(s.Client()))
	if err != nil {
		t.Fatal(err)
	}
	strictly := func(body []byte, into any) {
		t.Helper()
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	runs, err := c.ListRunsWithResponse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	strictly(runs.Body, &client.ListRunsResponse{})
	if got := *runs.JSON200.Runs; len(got) != 3 || *got[1].RunId != "live" || *got[1].State != client.RUNSTATERUNNING {
		t.Errorf("runs %s", runs.Body)
	}
	agents, err := c.ListAgentsWithResponse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	strictly(agents.Body, &client.ListAgentsResponse{})
	if got := *agents.JSON200.Agents; *got[0].Agent.Name != "a" || *got[0].Heartbeat.InFlight != 7 {
		t.Errorf("agents %s", agents.Body)
	}
	queue, err := c.ListQueueWithResponse(t.Context())
	if err != nil || len(*queue.JSON200.Runs) != 1 || *(*queue.JSON200.Runs)[0].RunId != "later" {
		t.Errorf("queue %v %s", err, queue.Body)
	}
	run, err := c.GetRunWithResponse(t.Context(), "old")
	if err != nil || *run.JSON200.Outcome != client.OUTCOMEDONE || run.JSON200.BeginTime != nil {
		t.Errorf("run %v %s", err, run.Body)
	}
	none, err := c.GetRunWithResponse(t.Context(), "none")
	if err != nil || none.ApplicationproblemJSON4XX == nil || none.ApplicationproblemJSON4XX.Status != 404 {
		t.Errorf("no run: %v %s", err, none.Body)
	}
	yes := true
	if _, err := c.StopRunWithResponse(t.Context(), "live", &client.StopRunParams{Immediately: &yes}); err != nil {
		t.Error(err)
	}
	records := client.Parquet
	submitted, err := c.SubmitRunWithBodyWithResponse(t.Context(), &client.SubmitRunParams{Records: &records},
		"application/yaml", strings.NewReader("name: x"))
	if err != nil || submitted.JSON201 == nil || *submitted.JSON201.RunId != "new" {
		t.Fatalf("submitted %v %s", err, submitted.Body)
	}
	if q := s.fake.plan; string(q.GetPlanYaml()) != "name: x" || q.GetRecords() != "parquet" || q.GetMinAgents() != 1 ||
		q.GetAgentsTimeout().AsDuration().Seconds() != 60 {
		t.Errorf("submitted %v", q)
	}
	refused, err := c.SubmitRunWithBodyWithResponse(t.Context(), nil, "application/yaml", http.NoBody)
	if err != nil || refused.StatusCode() != http.StatusBadRequest {
		t.Errorf("an empty plan: %v %s", err, refused.Body)
	}
	if _, err := c.RemoveRunWithResponse(t.Context(), "old"); err != nil {
		t.Error(err)
	}
	_, err1 := c.CordonAgentWithResponse(t.Context(), "a")
	_, err2 := c.DrainAgentWithResponse(t.Context(), "a")
	_, err3 := c.UncordonAgentWithResponse(t.Context(), "a")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Error(err)
	}
	log, err := c.ListAuditWithResponse(t.Context(), nil)
	if err != nil || len(*log.JSON200.Entries) != 2 || *(*log.JSON200.Entries)[0].Action != "stop" {
		t.Errorf("audit log %v %s", err, log.Body)
	}
	strictly(log.Body, &client.ReadAuditLogResponse{})
	over, err := c.GetHistoryWithResponse(t.Context(), nil)
	if err != nil || len(*over.JSON200.Lines) != 2 || *(*(*over.JSON200.Lines)[1].Points)[1].Change != 0.3 {
		t.Errorf("history %v %s", err, over.Body)
	}
	strictly(over.Body, &client.ReadHistoryResponse{})
	if got := s.fake.called(); got != "stop live true submit submit remove old "+
		"a CORDON_CORDONED a CORDON_DRAINED a CORDON_UNSPECIFIED audit 0 []" {
		t.Errorf("called: %s", got)
	}
}
