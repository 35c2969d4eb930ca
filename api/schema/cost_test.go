package schema

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// doubling returns a schema of definitions that each apply the next one twice.
func doubling(count int, twice string) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, `"a%d": `+twice+`,`, i, i+1, i+1)
	}
	return fmt.Sprintf(`{"$ref": "#/$defs/a0", "$defs": {%s "a%d": {"type": "object"}}}`, b.String(), count)
}

// Schemas that would take forever are refused, and usual ones, recursive ones too, are not.
func TestCosts(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"doubling":     {doubling(40, `{"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`), false},
		"alternatives": {doubling(40, `{"anyOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`), false},
		"a little":     {doubling(5, `{"anyOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`), true},
		"by depth":     {`{"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}`, false},
		"by pattern":   {`{"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}}`, false},
		"tree": {`{"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"},
			"all": {"type": "array", "items": {"$ref": "#"}}}, "additionalProperties": false}`, true},
		"usual": {`{"type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}}}`, true},
	} {
		if _, err := Compile(c.text); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzCompile compiles schemas, and checks an answer by those that are taken: never for long.
func FuzzCompile(f *testing.F) {
	f.Add(doubling(3, `{"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`), `{"a": [1, {"b": 2}]}`)
	f.Add(`{"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}`, `[[[[]]]]`)
	f.Add(`{"$ref": "#"}`, `1`)
	f.Fuzz(func(t *testing.T, text, answer string) {
		if len(text) > 1<<12 || len(answer) > 1<<10 {
			return
		}
		begun := time.Now()
		compiled, err := Compile(text)
		if err != nil {
			return
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
		if err == nil && !TooDeep(value) {
			_ = compiled.Validate(value)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
