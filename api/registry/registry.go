// Package registry has all APIs: a file for each family of them, and definitions of those that need no code.
package registry

import (
	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/internal/lists"
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
	a := lists.Find(All, func(a *api.API) bool { return a.Name == name })
	return a, a != nil
}

// Names returns the names of all APIs in plans, the default one first.
func Names() []string { return lists.Each(All, func(a *api.API) string { return a.Name }) }

// callPaths are the gjson paths of tool calls: of what an event has of one call, or else of the calls of an answer in
// one piece, which is a list.
type callPaths struct{ index, name, arguments, all, allName, allArguments string }

// read implements api.Tools.Calls.
func (p callPaths) read(value []byte, add func(api.CallPiece)) {
	all := gjson.ParseBytes(value)
	if !all.IsArray() {
		add(api.CallPiece{Index: api.IndexOf(all.Get(p.index)), Name: all.Get(p.name).String(),
			Arguments: all.Get(p.arguments).String()})
	}
	all.Get(p.all).ForEach(func(_, call gjson.Result) bool {
		add(api.CallPiece{Index: -1, Name: call.Get(p.allName).String(),
			Arguments: api.ArgumentsText(call.Get(p.allArguments))})
		return true
	})
}
