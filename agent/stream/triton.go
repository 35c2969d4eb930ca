package stream

import "github.com/spate-load/spate/workload"

// triton is POST /v2/models/MODEL/generate_stream of Triton with TensorRT-LLM. Its frames have text and nothing else:
// each frame counts as one output token, and a stream that ended in order is complete.
type triton struct{}

var tritonTraits = traits{
	path: "/v2/models/MODEL/generate_stream", prompts: []string{"text_input"},
	defaults:  map[string]any{"stream": true, "bad_words": "", "stop_words": ""}, // older versions require them all
	maxFields: []string{"max_tokens"},
	// Older versions call it min_length. Triton treats a field without a model input as a parameter and ignores it.
	minFields: []string{"min_tokens", "min_length"},
	noEndMark: true, streamOnly: true,
}

func (triton) traits() *traits     { return &tritonTraits }
func (triton) form() workload.Form { return workload.Text }
func (triton) prompt() string      { return "text_input" }

var tritonFrame = []string{"text_output", "error"}

func (triton) frame(data []byte, f *frame) error {
	*f = frame{}
	var v [2][]byte
	if err := members(data, tritonFrame, v[:]); err != nil {
		return err
	}
	if filled(v[1]) {
		f.fail(nil, v[1])
		return nil
	}
	f.chunk = len(v[0]) > 0
	f.answer, f.span = unquoted(v[0]), spanUnsure
	return nil
}
