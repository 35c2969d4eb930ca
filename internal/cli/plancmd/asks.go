package plancmd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/plans"
)

// Limits of files whose content becomes a part of the plan, in bytes.
const (
	maxAskFile  = 1 << 20   // tools, or a schema
	maxFormFile = 512 << 10 // of a form
)

// withAskFiles writes the content of files with tools, with schemas and of forms into the plan. The error lists all
// files that cannot be used.
func withAskFiles(plan *plans.Plan) (*plans.Plan, error) {
	var found []string
	var mistakes plans.Mistakes
	for _, f := range plan.AskFiles() {
		text, err := askFile(f)
		if err != nil {
			at := f.Field[:strings.LastIndex(f.Field, ".")] + ".path"
			mistakes = append(mistakes, plan.Mistake(at, err.Error()))
			continue
		}
		found = append(found, f.Field+"="+text)
	}
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return plan.With(found...)
}

// askFile reads a file of a form, or one with a list of tools or with a schema, and returns it in the form of an
// assignment: JSON on one line is YAML.
func askFile(f plans.File) (string, error) {
	if strings.HasSuffix(f.Field, ".content") {
		data, err := files.ReadFile(f.Path, maxFormFile)
		if err == nil && len(data) == 0 {
			err = fmt.Errorf("%s is empty", f.Path)
		}
		return base64.StdEncoding.EncodeToString(data), err
	}
	data, err := files.ReadFile(f.Path, maxAskFile)
	if err != nil {
		return "", err
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return "", fmt.Errorf("%s is not JSON: %w", f.Path, err)
	}
	_, list := value.([]any)
	_, object := value.(map[string]any)
	switch tools := strings.HasSuffix(f.Field, ".definitions"); {
	case tools && !list:
		return "", fmt.Errorf("%s is not a list of tools", f.Path)
	case !tools && !object:
		return "", fmt.Errorf("%s is not a JSON Schema, an object", f.Path)
	}
	var one bytes.Buffer
	e := json.NewEncoder(&one)
	e.SetEscapeHTML(false) // as it was
	err = e.Encode(value)
	return strings.TrimSpace(one.String()), err
}
