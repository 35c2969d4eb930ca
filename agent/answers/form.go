package answers

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
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
	schema, err := compile(text)
	if err != nil {
		return nil
	}
	return func(answer string) bool {
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
		return err == nil && schema.Validate(instance) == nil
	}
}

// errOtherDocument is the error of a schema that refers to another document.
var errOtherDocument = errors.New("refers to another document")

// loader loads no document: a schema of a plan must not make an agent read files.
type loader struct{}

func (loader) Load(string) (any, error) { return nil, errOtherDocument }

// schemaName is the name that a schema has for itself.
const schemaName = "spate:schema"

func compile(text string) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(loader{})
	if err := c.AddResource(schemaName, document); err != nil {
		return nil, err
	}
	return c.Compile(schemaName)
}
