package api

import "strings"

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
