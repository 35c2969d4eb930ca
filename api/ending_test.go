package api_test

import (
	"testing"

	"github.com/spate-load/spate/api"
)

func TestEndings(t *testing.T) {
	for reason, want := range map[string]api.Ending{
		"": api.EndingUnknown, "stop": api.EndingStop, "STOP": api.EndingStop, "end_turn": api.EndingStop,
		"length": api.EndingLength, "MAX_TOKENS": api.EndingLength, "max_output_tokens": api.EndingLength,
		"tool_use": api.EndingToolCalls, "content_filter": api.EndingFiltered, "PROHIBITED_CONTENT": api.EndingFiltered,
		"guardrail_intervened": api.EndingFiltered, "abort": api.EndingAborted, "error": api.EndingAborted,
		"insufficient_system_resource": api.EndingAborted, "MALFORMED_FUNCTION_CALL": api.EndingOther, "x": api.EndingOther,
	} {
		if got := api.EndingOf(reason); got != want {
			t.Errorf("%q: %d, want %d", reason, got, want)
		}
	}
}
