package registry

import (
	"bytes"
	"encoding/json"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// SGLang is POST /generate. Each frame holds the whole text so far and its token ids. A server started with
// --stream-output, later called --incremental-streaming-output, sends only the new ids. Its text is then only the new
// text in later versions, and the whole text so far in earlier ones. The number of output tokens always counts all so
// far.
var SGLang = api.API{
	Name: "sglang", Path: "/generate",
	Prompts:      []api.Prompt{{Form: workload.TokenIDs, Field: "input_ids"}, {Form: workload.Text, Field: "text"}},
	OtherPrompts: []string{"input_embeds"}, Defaults: map[string]any{"stream": true}, Options: "sampling_params",
	MaxFields: []string{"max_new_tokens"}, IgnoreEOS: "ignore_eos", MinFields: []string{"min_new_tokens"},
	AlwaysExact: true, Parse: parseSGLang, Forms: []api.Form{
		{Kind: api.FormSchema, Path: "sampling_params.json_schema"}, {Kind: api.FormRegex, Path: "sampling_params.regex"},
	}, Demand: func(schema any) map[string]any {
		text, err := json.Marshal(schema)
		if err != nil {
			panic(err) // it came from JSON
		}
		return map[string]any{"sampling_params": map[string]any{"json_schema": string(text)}}
	},
}

// Members of a frame, of its meta_info, and of its finish reason.
var (
	sglangFrame  = []string{"text", "output_ids", "meta_info", "error"}
	sglangMeta   = []string{"prompt_tokens", "cached_tokens", "completion_tokens", "finish_reason"}
	sglangFinish = []string{"type", "message"}
)

func parseSGLang(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [4][]byte
	if err := jsonscan.Members(e.Data, sglangFrame, v[:]); err != nil {
		return err
	}
	answer, ids, meta, fault := v[0], v[1], v[2], v[3]
	if jsonscan.Filled(fault) {
		f.Fail(nil, fault)
		return nil
	}
	f.Chunk = true
	f.Answer, f.Span = jsonscan.Unquoted(answer), api.SpanSoFar
	if len(answer) == 0 { // the server has no tokenizer
		f.Token, f.Span = jsonscan.Filled(ids), api.SpanPiece
	}
	var m [4][]byte
	jsonscan.NestedMembers(meta, sglangMeta, m[:])
	f.SetUsage(m[0], m[1], m[2])
	setSGLangFinish(f, m[3])
	if f.Span == api.SpanSoFar && hasNewSGLangIDs(f, ids) {
		f.Span = api.SpanUnsure
	}
	return nil
}

// hasNewSGLangIDs reports whether a frame has only the ids of new tokens, so that its text may be only the new text. It
// is false for the frame with which the model ends an answer: the end token has no text, so a text equal to the
// previous one is the whole answer.
func hasNewSGLangIDs(f *api.Frame, ids []byte) bool {
	return jsonscan.Filled(ids) && f.HasOutput && string(f.Finish) != "stop" &&
		uint64(bytes.Count(ids, []byte{','})+1) < f.Output
}

// setSGLangFinish records SGLang's finish reason: an object with a type, or a string.
func setSGLangFinish(f *api.Frame, reason []byte) {
	f.Finish = jsonscan.StringBytes(reason)
	var v [2][]byte
	jsonscan.NestedMembers(reason, sglangFinish, v[:])
	switch kind := jsonscan.StringBytes(v[0]); {
	case string(kind) == "abort":
		f.Abort(kind, v[1])
	case len(kind) > 0:
		f.Finish = kind
	}
}
