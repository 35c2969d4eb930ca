package stream

import "github.com/spate-load/spate/workload"

// triton is POST /v2/models/MODEL/generate_stream of Triton with TensorRT-LLM behind it. Its frames tell text and
// nothing else: output tokens are counted in frames, and a stream that ended in order is complete.
type triton struct{}

var tritonTraits = traits{
	path: "/v2/models/MODEL/generate_stream", prompts: []string{"text_input"},
	fixed:   map[string]any{"stream": true, "bad_words": "", "stop_words": ""}, // older versions want them all
	lengths: []string{"max_tokens"},
	// Older versions call it min_length. What a model has no input for is a parameter, which nobody reads.
	least:    []string{"min_tokens", "min_length"},
	unmarked: true, streamed: true,
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
	f.answer, f.span = within(v[0]), unsure
	return nil
}
