package ready

import (
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/schema"
)

// form reports whether an answer has a form.
type form func(answer string) bool

// formOf returns the form that the value of a body's field demands. Nil: it demands none, or none that can be checked.
func formOf(kind api.FormKind, value gjson.Result) form {
	switch {
	case !value.Exists():
		return nil
	case kind == api.FormSchema:
		return schemaForm(value)
	case kind == api.FormJSON && namesJSON(value):
		return gjson.Valid
	case kind == api.FormRegex:
		all, err := regexp.Compile(`^(?s:` + value.String() + `)$`)
		if err != nil {
			return nil
		}
		return all.MatchString
	case kind == api.FormChoice:
		return choiceForm(value)
	}
	return nil
}

// namesJSON reports whether a value demands JSON.
func namesJSON(value gjson.Result) bool {
	switch value.String() {
	case "true", "json_object", "application/json":
		return true
	}
	return false
}

func choiceForm(value gjson.Result) form {
	var all []string
	for _, one := range value.Array() {
		all = append(all, one.String())
	}
	return func(answer string) bool { return slices.Contains(all, answer) }
}

// schemaForm compiles a JSON Schema, an object or its text.
func schemaForm(value gjson.Result) form {
	text := value.Raw
	if value.Type == gjson.String {
		text = value.String()
	}
	compiled, err := schema.Compile(text)
	if err != nil {
		return nil
	}
	return func(answer string) bool {
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
		return err == nil && !schema.TooDeep(instance) && compiled.Validate(instance) == nil
	}
}
