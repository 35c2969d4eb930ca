// Package registry has all APIs. Each family of them is in a file; those of OpenAI and those that templates describe
// have packages of their own.
package registry

import (
	"slices"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/openai"
	"github.com/spate-load/spate/api/template"
)

// All has all APIs, the default one first. To add one, write a file for it and add a line here.
var All = []*api.API{
	&openai.Chat,
	&openai.Completions,
	&openai.Responses,
	&SGLang,
	template.TGI,
	template.Triton,
	&Anthropic,
	&Bedrock,
	&Gemini,
	&Embeddings,
	&TEI,
	&CohereEmbed,
	&Rerank,
	&CohereRerank,
	&Score,
	template.Any,
}

// Find returns the API with a name in plans. Empty: the default one. False: there is none with that name.
func Find(name string) (*api.API, bool) {
	if name == "" {
		return All[0], true
	}
	i := slices.IndexFunc(All, func(a *api.API) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return All[i], true
}

// Names returns the names of all APIs in plans, the default one first.
func Names() []string {
	names := make([]string, len(All))
	for i, a := range All {
		names[i] = a.Name
	}
	return names
}
