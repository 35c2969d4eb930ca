package stream

import "github.com/spate-load/spate/workload"

// tgi is Text Generation Inference's POST /generate_stream: one frame for each token. The last frame also has the
// details of the whole answer.
type tgi struct{}

var tgiTraits = traits{
	path: "/generate_stream", prompts: []string{"inputs"}, options: "parameters",
	defaults:  map[string]any{"parameters": map[string]any{"details": true}},
	maxFields: []string{"max_new_tokens"}, ignoreEOS: "ignore_eos_token", streamOnly: true,
}

func (tgi) traits() *traits     { return &tgiTraits }
func (tgi) form() workload.Form { return workload.Text }
func (tgi) prompt() string      { return "inputs" }

// Members of a frame, of its token, and of the details.
var (
	tgiFrame   = []string{"token", "generated_text", "details", "error", "error_type"}
	tgiToken   = []string{"text", "special"}
	tgiDetails = []string{"finish_reason", "generated_tokens", "input_length"}
)

func (tgi) frame(data []byte, f *frame) error {
	*f = frame{}
	var v [5][]byte
	if err := members(data, tgiFrame, v[:]); err != nil {
		return err
	}
	token, all, details, fault := v[0], v[1], v[2], v[3]
	if filled(fault) {
		f.fail(stringBytes(v[4]), fault)
		return nil
	}
	f.end = len(all) > 0 && all[0] == '"'
	var t [2][]byte
	nestedMembers(token, tgiToken, t[:])
	switch {
	case len(token) == 0: // an answer in one piece
		f.answer = unquoted(all)
	case string(t[1]) != "true": // the end-of-sequence token has no text
		f.answer = unquoted(t[0])
	}
	f.oneToken = filled(token)
	f.text = len(f.answer)
	f.hasAnswer, f.token = f.text > 0, f.text > 0 || f.oneToken
	f.chunk = f.token
	var d [3][]byte
	nestedMembers(details, tgiDetails, d[:])
	f.finish = stringBytes(d[0])
	f.setUsage(d[2], nil, d[1])
	return nil
}
