// Package schema compiles the JSON Schemas that answers must satisfy.
package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errOtherDocument is the error of a schema that refers to another document.
var errOtherDocument = errors.New("it refers to another document")

// loader loads no document: a schema must not make an agent read files.
type loader struct{}

func (loader) Load(string) (any, error) { return nil, errOtherDocument }

// name is the name that a schema has for itself.
const name = "spate:schema"

// oneLine puts an error on one line, and leaves out the schema's own name.
var oneLine = strings.NewReplacer("\n", " ", strconv.Quote(name+"#"), "the schema")

// Compile returns the schema of a JSON text. It returns an error, on one line, if the text is not JSON or not a schema,
// if it refers to another document, or if checking an answer by it may take too long. It reads no files.
func Compile(text string) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(loader{})
	if err := c.AddResource(name, document); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, errors.New(oneLine.Replace(err.Error()))
	}
	if (costs{}).of(compiled, MaxDepth) > maxSteps {
		return nil, fmt.Errorf("to check a value by it may take more than %d steps, as definitions refer to others several "+
			"times: let each refer to the next once", maxSteps)
	}
	return compiled, nil
}
