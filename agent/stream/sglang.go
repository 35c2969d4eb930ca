package stream

import (
	"bytes"

	"github.com/spate-load/spate/workload"
)

// sglang is SGLang's own POST /generate. Each frame holds the whole text so far and its token ids. A server started
// with --stream-output, later called --incremental-streaming-output, sends only the new ids. Its text is then only the
// new text in later versions, and the whole text so far in earlier ones. The number of output tokens always counts all
// so far.
type sglang struct {
	written workload.Form // of the prompts
}

var sglangTraits = traits{
	path: "/generate", prompts: []string{"text", "input_ids", "input_embeds"}, defaults: map[string]any{"stream": true},
	options: "sampling_params", maxFields: []string{"max_new_tokens"}, ignoreEOS: "ignore_eos",
	minFields: []string{"min_new_tokens"},
}

func (sglang) traits() *traits       { return &sglangTraits }
func (d sglang) form() workload.Form { return d.written }

func (d sglang) prompt() string {
	if d.written == workload.Text {
		return "text"
	}
	return "input_ids"
}

// Members of a frame, of its meta_info, and of its finish reason.
var (
	sglangFrame  = []string{"text", "output_ids", "meta_info", "error"}
	sglangMeta   = []string{"prompt_tokens", "cached_tokens", "completion_tokens", "finish_reason"}
	sglangFinish = []string{"type", "message"}
)

func (sglang) frame(data []byte, f *frame) error {
	*f = frame{}
	var v [4][]byte
	if err := members(data, sglangFrame, v[:]); err != nil {
		return err
	}
	answer, ids, meta, fault := v[0], v[1], v[2], v[3]
	if filled(fault) {
		f.fail(nil, fault)
		return nil
	}
	f.chunk = true
	f.answer, f.span = unquoted(answer), spanSoFar
	if len(answer) == 0 { // the server has no tokenizer
		f.token, f.span = filled(ids), spanPiece
	}
	var m [4][]byte
	nestedMembers(meta, sglangMeta, m[:])
	f.setUsage(m[0], m[1], m[2])
	f.setSGLangFinish(m[3])
	if f.span == spanSoFar && f.newIDs(ids) {
		f.span = spanUnsure
	}
	return nil
}

// newIDs reports whether a frame has only the ids of new tokens, so that its text may be only the new text. It is false
// for the frame with which the model ends an answer: the end token has no text, so a text equal to the previous one is
// the whole answer.
func (f *frame) newIDs(ids []byte) bool {
	return filled(ids) && f.hasOutput && string(f.finish) != "stop" &&
		uint64(bytes.Count(ids, []byte{','})+1) < f.output
}

// setSGLangFinish records SGLang's finish reason: an object with a type, or a string. An aborted request has failed.
func (f *frame) setSGLangFinish(reason []byte) {
	f.finish = stringBytes(reason)
	var v [2][]byte
	nestedMembers(reason, sglangFinish, v[:])
	switch kind := stringBytes(v[0]); {
	case string(kind) == "abort":
		f.fail(kind, v[1])
	case len(kind) > 0:
		f.finish = kind
	}
}
