package stream

import (
	"bytes"

	"github.com/spate-load/spate/workload"
)

// sglang is SGLang's own POST /generate. Each frame holds all of the text so far and its token ids. A server started
// with --stream-output, later called --incremental-streaming-output, sends the new ids alone; its text is that of these
// in later versions and all so far in earlier ones. The number of output tokens is of all so far in either case.
type sglang struct {
	written workload.Form // of the prompts
}

var sglangTraits = traits{
	path: "/generate", prompts: []string{"text", "input_ids", "input_embeds"}, fixed: map[string]any{"stream": true},
	options: "sampling_params", lengths: []string{"max_new_tokens"}, eos: "ignore_eos",
	least: []string{"min_new_tokens"},
}

func (sglang) traits() *traits       { return &sglangTraits }
func (d sglang) form() workload.Form { return d.written }

func (d sglang) prompt() string {
	if d.written == workload.Text {
		return "text"
	}
	return "input_ids"
}

// Members of a frame, of what it says of itself, and of its finish reason.
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
	said, ids, meta, fault := v[0], v[1], v[2], v[3]
	if filled(fault) {
		f.fail(nil, fault)
		return nil
	}
	f.chunk = true
	f.answer, f.span = within(said), soFar
	if len(said) == 0 { // the server has no tokenizer
		f.token, f.span = filled(ids), aPiece
	}
	var m [4][]byte
	part(meta, sglangMeta, m[:])
	f.told(m[0], m[1], m[2])
	f.stopped(m[3])
	if f.span == soFar && f.newIDs(ids) {
		f.span = unsure
	}
	return nil
}

// newIDs says whether a frame has ids of new tokens alone, so that its text may be that of these. The one that ends an
// answer by the model's word is left out: the token that does so has no text, so that a text like the one before is all
// of the answer.
func (f *frame) newIDs(ids []byte) bool {
	return filled(ids) && f.usage && string(f.finish) != "stop" && uint64(bytes.Count(ids, []byte{','})+1) < f.output
}

// stopped takes SGLang's finish reason: an object with a type, or a word. An aborted request has failed.
func (f *frame) stopped(reason []byte) {
	f.finish = word(reason)
	var v [2][]byte
	part(reason, sglangFinish, v[:])
	switch kind := word(v[0]); {
	case string(kind) == "abort":
		f.fail(kind, v[1])
	case len(kind) > 0:
		f.finish = kind
	}
}
