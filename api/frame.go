package api

import (
	"cmp"
	"hash/maphash"
	"strings"

	"github.com/spate-load/spate/api/jsonscan"
)

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
	f.Fault = cmp.Or(f.Fault, string(value[:min(len(value), faultLimit)]))
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

// Ending is why an answer ended, by the server's finish reason.
type Ending uint8

const (
	// EndingUnknown means that there is no finish reason.
	EndingUnknown Ending = iota
	// EndingStop means that the model ended the answer itself, or produced a stop word.
	EndingStop
	// EndingLength means that a limit on tokens ended it.
	EndingLength
	// EndingToolCalls means that the answer ends in tool calls.
	EndingToolCalls
	// EndingFiltered means a content filter, or a refusal.
	EndingFiltered
	// EndingOther means a reason that is not in the catalogue.
	EndingOther
	// EndingAborted means that the server ended the answer early: it could not or would not finish it.
	EndingAborted

	// EndingCount is the number of endings.
	EndingCount
)

// endings is the catalogue of finish reasons, in lower case.
var endings = func() map[string]Ending {
	all := make(map[string]Ending)
	for ending, reasons := range map[Ending]string{
		EndingStop:      "stop eos eos_token end_turn stop_sequence completed complete",
		EndingLength:    "length max_tokens max_output_tokens model_length model_context_window_exceeded",
		EndingToolCalls: "tool_calls tool_call tool_use function_call",
		// Gemini's and Bedrock's names are among them.
		EndingFiltered: "content_filter content_filtered refusal safety recitation language blocklist prohibited_content " +
			"spii image_safety image_prohibited_content image_recitation guardrail_intervened error_toxic",
		// "timeout" is TensorRT-LLM's, "insufficient_system_resource" DeepSeek's, "failed" that of a response.
		EndingAborted: "abort aborted error cancelled canceled failed timeout insufficient_system_resource",
	} {
		for _, reason := range strings.Fields(reasons) {
			all[reason] = ending
		}
	}
	return all
}()

// EndingOf returns the ending that a finish reason means.
func EndingOf(reason string) Ending {
	if reason == "" {
		return EndingUnknown
	}
	if ending, known := endings[strings.ToLower(reason)]; known {
		return ending
	}
	return EndingOther
}

// Span says which part of an answer a frame's text is.
type Span uint8

const (
	// SpanPiece is only the new text.
	SpanPiece Span = iota
	// SpanSoFar is usually the whole answer so far. Some servers are configured to send pieces.
	SpanSoFar
	// SpanUnsure is usually a piece. Some servers send the whole answer so far. A text that extends the previous one
	// shows that; a text equal to the previous one does not.
	SpanUnsure
)

// Growth finds out what a frame adds to an answer, for APIs whose frames can hold the whole answer so far. It keeps no
// text: a hash shows whether a text starts with the previous one. A text that does not is a piece, and then all later
// texts are pieces. The time is proportional to a frame's bytes; no memory is allocated.
type Growth struct {
	length int
	hash   uint64
	grew   bool // a text extended the previous one
	pieces bool
}

var growthSeed = maphash.MakeSeed()

// Added returns the part of a text that earlier frames did not have.
func (g *Growth) Added(text []byte, s Span) []byte {
	if g.pieces || len(text) == 0 {
		return text
	}
	before := g.length
	if len(text) < before || before > 0 && maphash.Bytes(growthSeed, text[:before]) != g.hash {
		g.pieces = true
		return text
	}
	if before > 0 && len(text) == before && s == SpanUnsure && !g.grew {
		return text
	}
	g.grew = g.grew || before > 0 && len(text) > before
	g.length, g.hash = len(text), maphash.Bytes(growthSeed, text)
	return text[before:]
}
