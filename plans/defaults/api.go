package defaults

import (
	"cmp"
	"encoding/base64"
	"path/filepath"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/api/template"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// promptForms maps the forms of prompts that are not chat messages to their names.
var promptForms = map[workload.Form]string{workload.TokenIDs: PromptIDs, workload.Text: "text"}

// PromptIDs is the form of prompts that are token IDs.
const PromptIDs = "token_ids"

// API returns a target's API. The default one stands for an unknown one, which the rules report.
func API(t *spatev1.Target) *api.API {
	a, known := registry.Find(t.GetApi())
	switch {
	case !known:
		return registry.All[0]
	case a.Name == template.Name:
		a = template.New(Template(t))
	}
	if !Streams(t) {
		return a.InOnePiece()
	}
	return a
}

// Streams reports whether a target's answers are requested as streams.
func Streams(t *spatev1.Target) bool {
	if t.GetApi() == template.Name {
		return t.GetTemplate().GetStream() == template.SSE || t.GetTemplate().GetStream() == template.Lines
	}
	if a, known := registry.Find(t.GetApi()); known && a.NoOutput {
		return false
	}
	return t.Stream == nil || t.GetStream() //nolint:protogetter // whether it is given is what counts
}

// Template returns what a target says about the API template.
func Template(t *spatev1.Target) template.Spec {
	s := t.GetTemplate()
	return template.Spec{
		Path: s.GetPath(), Body: s.GetBody(), Form: form(s), Stream: s.GetStream(), Text: s.GetText(),
		Finish: s.GetFinish(), Error: s.GetError(), InputTokens: s.GetInputTokens(), OutputTokens: s.GetOutputTokens(),
		CachedTokens: s.GetCachedTokens(),
	}
}

// form returns the form of a template, nil if it has none. Files whose content is not Base64 are empty; the rules
// report them.
func form(t *spatev1.Template) *api.MultipartForm {
	if len(t.GetForm())+len(t.GetFiles()) == 0 {
		return nil
	}
	f := &api.MultipartForm{Fields: t.GetForm()}
	for _, file := range t.GetFiles() {
		content, err := base64.StdEncoding.DecodeString(file.GetContent())
		if err != nil {
			content = nil
		}
		f.Files = append(f.Files, api.FormFile{
			Field: file.GetField(), Name: filepath.Base(file.GetPath()), Content: content,
		})
	}
	return f
}

// SendsTokenIDs reports whether a target's prompts are token IDs.
func SendsTokenIDs(t *spatev1.Target) bool {
	return cmp.Or(t.GetPrompts(), usualPrompts(API(t))) == PromptIDs
}

// usualPrompts returns the default form of an API's prompts. Empty means messages.
func usualPrompts(a *api.API) string { return promptForms[a.Prompts[0].Form] }
