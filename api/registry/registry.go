// Package registry has all APIs: a file for each family of them, and definitions of those that need no code.
package registry

import (
	"slices"

	"github.com/spate-load/spate/api"
)

// All has all APIs, the default one first. To add one, write a file for it and add a line here.
var All = []*api.API{
	&Chat,
	&Completions,
	&Responses,
	&SGLang,
	TGI,
	Triton,
	&Anthropic,
	&Bedrock,
	&Gemini,
	&Embeddings,
	&TEI,
	&CohereEmbed,
	&Rerank,
	&CohereRerank,
	&Score,
	Any,
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
