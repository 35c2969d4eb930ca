package requests

import (
	"encoding/json"

	"github.com/parquet-go/parquet-go"

	"github.com/spate-load/spate/aggregate/results"
)

// columns are the columns of request rows and their meanings. docs/results.md has them as a table.
var columns = []struct{ name, meaning string }{
	{"stage", "Index of the stage, from 0, as in results.json"},
	{"index", "Index of the request in its stage; of the session, where `turn` counts"},
	{"agent", "Name of the agent that sent it"},
	{"endpoint", "Index of the endpoint in the target's list"},
	{"part", "Name of the mixture's part; null: the workload is not a mixture"},
	{"model", "Model that it named, if the mixture's part has models of its own; null: the target's"},
	{"unmeasured", "It belongs to warm-up or cool-down"},
	{"scheduled_ns", "When it was due by the schedule"},
	{"held_ns", "For how long max_in_flight held it back after `scheduled_ns`; null: not at all"},
	{"start_ns", "When the agent started it"},
	{"sent_ns", "When its last byte was handed to the kernel"},
	{"first_byte_ns", "First byte of the response"},
	{"first_token_ns", "First frame with a token"},
	{"last_token_ns", "Last frame with a token"},
	{"first_text_ns", "First frame with text of any kind"},
	{"first_answer_ns", "First frame with text of the answer, not of reasoning"},
	{"first_chunk_ns", "First frame that vLLM's client takes the time of"},
	{"last_chunk_ns", "Last frame that vLLM's client takes the time of"},
	{"chunks", "Frames that vLLM's client takes the time of"},
	{"end_ns", "End of the response, or failure"},
	{"connect_ns", "Time for DNS, TCP and TLS of the connection; null: it had been used before"},
	{"dns_ns", "DNS's part of it; null: there was none"},
	{"tcp_ns", "TCP's part of it; null: there was none"},
	{"tls_ns", "TLS's part of it; null: there was none"},
	{"itl_ns", "Gaps between frames with a token"},
	{"isl_asked", "Input tokens asked for"},
	{"osl_asked", "Output tokens asked for"},
	{"input_tokens", "Input tokens seen"},
	{"output_tokens", "Output tokens seen"},
	{"usage", "The server's usage counted the tokens"},
	{"token_frames", "Frames that carried a token"},
	{"reasoning_tokens", "Output tokens that were reasoning; null: not reported, or none"},
	{"text_bytes", "Bytes of text of the output, as JSON writes it; a tool call counts with all of its JSON"},
	{"error_class", "How it failed, by the names of `errors` in results.json (`http_429`); null: it did not"},
	{"http_status", "HTTP status of the answer; null: there was none"},
	{"error", "The failure in words; null: it did not fail"},
	{"cancelled", "Cancelled by a stop or the end of the drain"},
	{"body_hash", "FNV-1a of the request body, 16 hexadecimal digits, so that two runs' requests can be compared"},
	{"finish_reason", "What the server gave; null: nothing"},
	{"answer_model", "Model that the answer named; null: none"},
	{"turn", "Turn of the session, from 0"},
	{"cached_tokens", "Prompt tokens that the server took from its prefix cache; null: not reported"},
	{"shared_tokens", "Prompt tokens that an earlier request began with too, by the workload's own account"},
	{"tool_calls", "Tool calls in the answer; null: no tools were defined, and there are none"},
	{"valid_tool_calls", "Those that name a tool of the request and have a JSON object as arguments; null with `tool_calls`"},
	{"valid_answer", "The answer has the form that the request demanded; null: none that can be checked"},
	{"texts", "Texts of the request (inputs, documents); null: the workload sets no number"},
}

// rowUnits describes the units of the numbers in a row.
const rowUnits = "Columns that end in _ns: nanoseconds since the start of the row's stage (held_ns, connect_ns, dns_ns, tcp_ns, tls_ns and itl_ns: " +
	"nanoseconds). Lengths: tokens. Null: not known, or not reached."

// rowStage describes the stage that rows refer to by its index.
type rowStage struct {
	Stage     uint32  `json:"stage"`
	Target    string  `json:"target"`
	Workload  string  `json:"workload"`
	Load      string  `json:"load"`
	StartTime *string `json:"start_time"` // null: the stage never started
}

// footer returns the metadata of a Parquet file, with which it can be read without the files beside it: the run, the
// version of the program that measured, the units, the stages and what the columns mean.
func footer(r *results.Result) ([]parquet.WriterOption, error) {
	stages := []rowStage{}
	for _, s := range r.Stages {
		stages = append(stages, rowStage{s.Index, s.Target, s.Workload, s.Load.Words, s.StartTime})
	}
	meanings := make(map[string]string)
	for _, c := range columns {
		meanings[c.name] = c.meaning
	}
	entries := []struct {
		key   string
		value any
	}{
		{"spate.run_id", r.Run.ID}, {"spate.version", r.Run.Version}, {"spate.units", rowUnits},
		{"spate.stages", stages}, {"spate.columns", meanings},
	}
	var options []parquet.WriterOption
	for _, e := range entries {
		text, plain := e.value.(string)
		if !plain {
			data, err := json.Marshal(e.value)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		options = append(options, parquet.KeyValueMetadata(e.key, text))
	}
	return options, nil
}
