package bodies

import (
	"bytes"
	"errors"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/spate-load/spate/api"
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
