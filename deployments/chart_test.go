package deployments

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

const chart = "helm/spate/"

// chartValues returns the chart's default values.
func chartValues(t *testing.T) (values map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, chart+"values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// chartSchema returns the schema by which Helm checks values.
func chartSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, chart+"values.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("values", text); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("values")
}

// The chart's default values match its schema, and a typo in any of their names does not.
func TestChartRefusesValuesItDoesNotKnow(t *testing.T) {
	schema := chartSchema(t)
	if err := schema.Validate(chartValues(t)); err != nil {
		t.Error(err)
	}
	open := []string{"resources.limits", "resources.requests"} // Kubernetes' own
	for _, path := range paths("", chartValues(t)) {
		if slices.ContainsFunc(open, func(o string) bool { return strings.Contains(path, o) }) {
			continue
		}
		values := chartValues(t)
		at, names := values, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			at = at[name].(map[string]any)
		}
		last := names[len(names)-1]
		at[last+"x"] = at[last]
		delete(at, last)
		if schema.Validate(values) == nil {
			t.Errorf("%sx is taken", path)
		}
	}
}

// paths returns the names of all values, joined by dots.
func paths(prefix string, values map[string]any) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, prefix+name)
		if below, is := values[name].(map[string]any); is {
			all = append(all, paths(prefix+name+".", below)...)
		}
	}
	return all
}

// Every value that the schema accepts is in values.yaml, where people look for it.
func TestChartValuesAreAllShown(t *testing.T) {
	var visit func(path string, schema *jsonschema.Schema, values map[string]any)
	visit = func(path string, schema *jsonschema.Schema, values map[string]any) {
		for name, below := range schema.Properties {
			value, there := values[name]
			if !there && name != "global" {
				t.Errorf("%s%s is not in values.yaml", path, name)
			}
			if inside, is := value.(map[string]any); is && len(inside) > 0 {
				visit(path+name+".", below, inside)
			}
		}
	}
	visit("", chartSchema(t), chartValues(t))
}

// Values, besides unknown names, that the chart refuses.
func TestChartRefusesValuesThatCannotBe(t *testing.T) {
	schema := chartSchema(t)
	for _, c := range []struct {
		part, name string
		value      any
		taken      bool
	}{
		{"agents", "kind", "StatefulSet", false},
		{"agents", "replicas", "3", false},
		{"agents", "replicas", 0, true},
		{"agents", "maxUnavailable", 0, false},
		{"agents", "labels", map[string]any{"rack": 7}, false},
		{"agents", "labels", map[string]any{"rack": "7"}, true},
		{"agents", "weight", 0, false},
		{"agents", "goMemLimit", "4Gi", false},
		{"agents", "goMemLimit", "4GiB", true},
		{"agents", "coordinators", "10.0.0.1:7700", false},
		{"agents", "tolerations", []any{map[string]any{"operator": "Exists"}}, true},
		{"coordinator", "lease", "30", false},
		{"coordinator", "lease", "1m30s", true},
		{"tls", "mode", "certmanager", false},
	} {
		values := chartValues(t)
		values[c.part].(map[string]any)[c.name] = c.value
		if err := schema.Validate(values); (err == nil) != c.taken {
			t.Error(fmt.Sprintf("%s.%s: %v", c.part, c.name, c.value), err)
		}
	}
}

// The chart installs the version of the programs that it was released with.
func TestChartCarriesTheVersion(t *testing.T) {
	var chartFile struct {
		Version    string
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal([]byte(read(t, chart+"Chart.yaml")), &chartFile); err != nil {
		t.Fatal(err)
	}
	want := "0.1.0" // until there is a release
	if released := regexp.MustCompile(`(?m)^## \[(\d.*?)\]`).FindStringSubmatch(read(t, "../CHANGELOG.md")); released != nil {
		want = released[1]
	}
	if chartFile.Version != want || chartFile.AppVersion != want {
		t.Errorf("Chart.yaml has %+v, CHANGELOG.md's newest version is %s", chartFile, want)
	}
}
