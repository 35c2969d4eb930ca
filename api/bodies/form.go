package bodies

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/workload"
)

// Form encodes a form (multipart/form-data), whose boundary is api.FormBoundary. It fails if the template of a field
// cannot be parsed or run, or if neither the prompt nor a file is sent.
func Form(f *api.MultipartForm, model string) (Body, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(api.FormBoundary); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.Fields)) {
		value, err := FormField(name, f.Fields[name], model)
		if err != nil {
			return nil, err
		}
		if err := w.WriteField(name, value); err != nil {
			return nil, err
		}
	}
	body := cutAtMarks(b.String())
	if !body.has(plainSlot) && len(f.Files) == 0 {
		return nil, errors.New("has neither {{.Prompt}}, {{.Text}} nor a file: it sends nothing")
	}
	b.Reset()
	for _, file := range f.Files {
		part, err := w.CreatePart(fileHeader(&file))
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	body.write(b.Bytes())
	return body, nil
}

// FormField runs the template of a form's field, with open slots.
func FormField(name, text, model string) (string, error) {
	return fill(name, text, map[string]any{"Model": field{model}, "Prompt": marks[plainSlot], "Text": marks[plainSlot],
		"OSL": marks[lengthSlot]})
}

// quotes escapes what stands between quotes in a part's header.
var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "%0D", "\n", "%0A")

// fileHeader returns the header of a file's part: servers go by its name and type.
func fileHeader(f *api.FormFile) textproto.MIMEHeader {
	field, name := quotes.Replace(f.Field), quotes.Replace(f.Name)
	return textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="` + field + `"; filename="` + name + `"`},
		"Content-Type":        {http.DetectContentType(f.Content)},
	}
}

// Dialect is an API with the form that a target's prompts have.
type Dialect struct {
	*api.API
	Prompt api.Prompt
}

// DialectOf returns the dialect of an API for a form of prompts: "token_ids", "text", or empty for the API's default.
// APIs that take messages ignore the form. whole: requests ask for answers in one piece. It fails for names that it
// does not know.
func DialectOf(name, prompts string, whole bool) (*Dialect, error) {
	a, known := registry.Find(name)
	if !known {
		return nil, fmt.Errorf("unknown api %q: use one of %s", name, strings.Join(registry.Names(), ", "))
	}
	return Of(a, prompts, whole)
}

// Of is DialectOf for an API.
func Of(a *api.API, prompts string, whole bool) (*Dialect, error) {
	if whole {
		a = a.InOnePiece()
	}
	d := &Dialect{a, a.Prompts[0]}
	form := d.Prompt.Form
	switch prompts {
	case "":
	case "token_ids":
		form = workload.TokenIDs
	case "text":
		form = workload.Text
	default:
		return nil, fmt.Errorf("unknown prompts %q: use \"token_ids\" or \"text\"", prompts)
	}
	if a.Chat() {
		return d, nil
	}
	var takes bool
	if d.Prompt, takes = a.Prompt(form); !takes {
		return nil, fmt.Errorf("prompts %q are not supported by api %q, which takes only text", prompts, a.Name)
	}
	return d, nil
}
