package api

import "github.com/spate-load/spate/api/jsonscan"

// Frame is what one event's data contains.
type Frame struct {
	Token     bool // it carries a token: it has text or token ids
	Chunk     bool // it is part of the output; vLLM's benchmark client timestamps such frames
	EmptyText bool // it has an empty field for text
	Role      bool // it names the role of the message
	Closes    bool // it ends the output, or a part of it
	OneToken  bool // it holds exactly one token
	Reasoning bool // some of its text is reasoning
	HasAnswer bool // some of it is the answer: text, a tool call or a refusal
	End       bool // it marks the end of the stream
	Failed    bool // it reports an error

	Finish []byte // finish reason, if any; points into the event's data
	Model  []byte // JSON value with the model that answers, if any; points into the event's data

	// Token counts of the usage, each 0 unless its flag below is set: output, prompt, prompt tokens from a prefix
	// cache, output tokens that were reasoning.
	Output, Input, Cached, ReasoningTokens             uint64
	HasOutput, HasInput, HasCached, HasReasoningTokens bool

	TextBytes int    // bytes of text of any kind, as encoded in JSON
	Answer    []byte // content of the first choice, as between the JSON quotes; points into the event's data
	Span      Span   // which part of the answer that is
	Calls     []byte // JSON value with pieces of tool calls, if any, for Tools.Calls; points into the event's data
	Timing    []byte // JSON object with the server's own timings, if any; points into the event's data
	Fault     string // the error's message, or that of an answer that the server ended early
}

// TrimAnswer removes from a frame the part of the answer that earlier frames had.
func (f *Frame) TrimAnswer(g *Growth) {
	f.Answer = g.Added(f.Answer, f.Span)
	f.Token = len(f.Answer) > 0
	f.HasAnswer, f.TextBytes = f.Token, len(f.Answer)
}

// EndPart marks a frame as the end of a part of the output, in an API that sends no frame for a last token without
// text.
func (f *Frame) EndPart() { f.Closes, f.EmptyText = true, true }

// AddOutput records a JSON value with generated output.
func (f *Frame) AddOutput(value []byte, reasoning bool) {
	if !jsonscan.Filled(value) {
		f.EmptyText = f.EmptyText || len(value) == 2 && value[0] == '"'
		return
	}
	f.Token = true
	f.TextBytes += len(value) - 2
	f.Reasoning = f.Reasoning || reasoning
	f.HasAnswer = f.HasAnswer || !reasoning
}

// faultLimit is the longest part of an error without a message that is kept, in bytes.
const faultLimit = 512

// Fail marks a frame as an error. The value is an object with a message, or a string. kind is the kind of error; a type
// or code in the value replaces it.
func (f *Frame) Fail(kind, value []byte) {
	f.Failed, f.Fault = true, jsonscan.Text(value)
	if o := jsonscan.Object(value); o != nil {
		f.Fault = jsonscan.Text(o["message"])
		for _, name := range []string{"code", "type"} {
			if own := jsonscan.StringBytes(o[name]); len(own) > 0 {
				kind = own
			}
		}
	}
	if len(kind) > 0 && f.Fault != "" {
		f.Fault = string(kind) + ": " + f.Fault
	}
	if f.Fault == "" {
		f.Fault = string(value[:min(len(value), faultLimit)])
	}
}

// Abort marks a frame as the end of an answer that the server ended early. The value describes the error, as for Fail,
// and may be missing.
func (f *Frame) Abort(reason, value []byte) {
	if jsonscan.Filled(value) {
		f.Fail(nil, value)
		f.Failed = false
	}
	f.Finish = reason
}

// SetUsage records the tokens of a prompt, those of them that came from a prefix cache, and the output tokens.
func (f *Frame) SetUsage(input, cached, output []byte) {
	f.Input, f.HasInput = jsonscan.Count(input)
	f.Cached, f.HasCached = jsonscan.Count(cached)
	f.Output, f.HasOutput = jsonscan.Count(output)
}

// AddCacheTokens adds to the prompt's tokens those that were read from the cache, and those written to it, in an API
// whose count of a prompt's tokens excludes them.
func (f *Frame) AddCacheTokens(written []byte) {
	if f.HasInput {
		n, _ := jsonscan.Count(written)
		f.Input += f.Cached + n
	}
}
