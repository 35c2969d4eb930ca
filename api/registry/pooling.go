package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// Embeddings is OpenAI's POST /v1/embeddings. Answers of this and the following APIs, of pooling models, have no
// tokens.
var Embeddings = api.API{
	Name: "embeddings", Operation: "embeddings", Version: "/v1", Path: "/embeddings", Model: "model", NoOutput: true,
	Prompts:  []api.Prompt{{Form: workload.Text, Field: "input"}, {Form: workload.TokenIDs, Field: "input"}},
	Defaults: map[string]any{"encoding_format": "float"}, Parse: parsePooling,
}

// TEI is POST /embed of Hugging Face's Text Embeddings Inference. Its answers do not count tokens.
var TEI = api.API{
	Name: "tei", Operation: "embeddings", Path: "/embed", NoOutput: true,
	Prompts: []api.Prompt{{Form: workload.Text, Field: "inputs"}}, Parse: parseVectors,
	Describe: described("tei", question{path: "/info", model: "model_id", limit: "max_input_length", version: "version"}),
	Count:    countTEI,
}

// CohereEmbed is Cohere's POST /v2/embed.
var CohereEmbed = api.API{
	Name: "cohere_embed", Provider: "cohere", Operation: "embeddings", Version: "/v2", Path: "/embed", Model: "model", NoOutput: true,
	Prompts: []api.Prompt{{Form: workload.Text, Field: "texts"}}, OtherPrompts: []string{"images", "inputs"},
	Defaults: map[string]any{"input_type": "search_document", "embedding_types": []any{"float"}},
	Rewrite:  listText, Parse: parsePooling,
}

// Rerank is POST /v1/rerank, Jina's API, which vLLM and others have, too.
var Rerank = api.API{
	Name: "rerank", Operation: "rerank", Version: "/v1", Path: "/rerank", Model: "model", NoOutput: true, Cuts: true,
	Prompts: []api.Prompt{{Form: workload.Text, Field: "query"}}, OtherPrompts: []string{"documents"},
	Rewrite: cutWordsInto(`,"documents":`), Parse: parsePooling,
}

// CohereRerank is Cohere's POST /v2/rerank.
var CohereRerank = api.API{
	Name: "cohere_rerank", Provider: "cohere", Operation: "rerank", Version: "/v2", Path: "/rerank", Model: "model", NoOutput: true,
	Cuts: true, Prompts: []api.Prompt{{Form: workload.Text, Field: "query"}}, OtherPrompts: []string{"documents"},
	Rewrite: cutWordsInto(`,"documents":`), Parse: parsePooling,
}

// Score is vLLM's POST /score.
var Score = api.API{
	Name: "score", Operation: "score", Path: "/score", Model: "model", NoOutput: true, Cuts: true,
	Prompts: []api.Prompt{{Form: workload.Text, Field: "text_1"}}, OtherPrompts: []string{"text_2"},
	Rewrite: cutWordsInto(`,"text_2":`), Parse: parsePooling,
}

// Members of an answer, of its usage, of Cohere's meta, and of the units in it.
var (
	poolingAnswer = []string{"data", "embeddings", "results", "usage", "meta", "error", "model"}
	poolingUsage  = []string{"prompt_tokens", "total_tokens"}
	poolingMeta   = []string{"billed_units", "tokens"}
	poolingUnits  = []string{"input_tokens"}
)

// parsePooling reads an answer: vectors, or scores, of any number of inputs.
func parsePooling(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [7][]byte
	if err := jsonscan.Members(e.Data, poolingAnswer, v[:]); err != nil {
		return err
	}
	if fault := v[5]; jsonscan.Filled(fault) {
		f.Fail(nil, fault)
		return nil
	}
	f.Token = jsonscan.Filled(v[0]) || jsonscan.Filled(v[1]) || jsonscan.Filled(v[2])
	f.End, f.Model = true, v[6]
	var usage, meta [2][]byte
	jsonscan.NestedMembers(v[3], poolingUsage, usage[:])
	f.SetUsage(usage[0], nil, nil)
	if !f.HasInput { // Jina's rerank counts only all tokens, which are the prompt's
		f.SetUsage(usage[1], nil, nil)
	}
	jsonscan.NestedMembers(v[4], poolingMeta, meta[:])
	for i := len(meta) - 1; i >= 0 && !f.HasInput; i-- {
		var tokens [1][]byte
		jsonscan.NestedMembers(meta[i], poolingUnits, tokens[:])
		f.SetUsage(tokens[0], nil, nil)
	}
	return nil
}

// parseVectors reads TEI's answer, a listText of vectors.
func parseVectors(e api.Event, f *api.Frame) error {
	c := jsonscan.Cursor{B: e.Data}
	c.Peek()
	vectors := c.Skip(0)
	if !c.End() || vectors[0] != '[' {
		return parsePooling(e, f) // an error, or not of this API
	}
	*f = api.Frame{End: true}
	jsonscan.Each(vectors, func(vector []byte) { f.Token = f.Token || jsonscan.Filled(vector) })
	return nil
}

// countTEI asks POST /tokenize, which answers with a listText of the tokens of each text.
func countTEI(ctx context.Context, s api.Server, text string, _ bool) (api.Tokens, error) {
	var texts [][]json.RawMessage
	if err := s.Post(ctx, "/tokenize", map[string]any{"inputs": text}, &texts); err != nil {
		return api.Tokens{}, err
	}
	if len(texts) != 1 {
		return api.Tokens{}, s.Unusable("/tokenize", "the answer does not have the tokens of one text")
	}
	return api.Tokens{Count: uint64(len(texts[0]))}, nil
}

// listText makes a prompt the only element of a listText. Several texts are a listText already.
func listText(dst []byte, from int) []byte {
	if dst[from] == '[' {
		return dst
	}
	return append(slices.Insert(dst, from, '['), ']')
}

// How a prompt is cutWords into a query and documents, in words.
const (
	queryWords    = 16
	documentWords = 128
)

// cutWordsInto returns a function that makes the first words of a prompt the query, and adds a field with the
// documents: the rest, in pieces. A prompt that is too short to have a rest is its own document. Of several texts, each
// is a document, the first without the query. A query in a listText of its own, in front of the texts, is the query.
func cutWordsInto(field string) func(dst []byte, from int) []byte {
	return func(dst []byte, from int) []byte {
		words, others := documentWords, []byte("]")
		text := bytes.Clone(dst[from:])
		if text[0] == '[' {
			listText := jsonscan.Cursor{B: text[1:]}
			text = listText.Skip(0)
			words, others = math.MaxInt, listText.B[listText.I:]
		}
		if text[0] == '[' {
			dst = append(append(append(dst[:from], text[1:len(text)-1]...), field...), '[')
			return append(dst, others[1:]...) // behind the comma
		}
		text = text[1 : len(text)-1] // a space is never a part of an escape in JSON
		query, rest := cutWords(text, queryWords)
		if len(rest) == 0 {
			rest = query
		}
		dst = append(append(append(dst[:from], '"'), query...), '"')
		dst = append(append(dst, field...), '[')
		for comma := false; len(rest) > 0; comma = true {
			var document []byte
			document, rest = cutWords(rest, words)
			if comma {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, '"'), document...), '"')
		}
		return append(dst, others...)
	}
}

// cutWords returns the first words of a text, and the text after them.
func cutWords(text []byte, words int) (first, rest []byte) {
	end := 0
	for range words {
		for end < len(text) && text[end] == ' ' {
			end++
		}
		n := bytes.IndexByte(text[end:], ' ')
		if n < 0 {
			return text, nil
		}
		end += n
	}
	return text[:end], text[end+1:]
}
