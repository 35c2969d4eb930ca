// Code generated from metrics.proto by make generate. DO NOT EDIT.

package measure

// Counters, by their numbers in the protocol.
const (
	// Started: Measured requests that started.
	Started Counter = 1
	// Completed: Measured requests that completed.
	Completed Counter = 2
	// Failed: Measured requests that failed: the sum of the errors.
	Failed Counter = 3
	// Cancelled: Measured requests cancelled by the drain timeout or a stop.
	Cancelled Counter = 4
	// UnmeasuredStarted: Unmeasured requests that started.
	UnmeasuredStarted Counter = 5
	// UnmeasuredEnded: Unmeasured requests that ended in any way.
	UnmeasuredEnded Counter = 6
	// InputTokens: Prompt tokens of completed requests, by the server's usage.
	InputTokens Counter = 7
	// OutputTokens: Output tokens of completed requests.
	OutputTokens Counter = 8
	// Frames: Frames of measured requests that arrived and may carry a token, however the requests ended.
	Frames Counter = 9
	// TokensArrived: Tokens in `frames`, by the server's running usage.
	TokensArrived Counter = 10
	// WithoutUsage: Completed requests without usage from the server.
	WithoutUsage Counter = 11
	// ISLMissed: Completed requests in `isl_compared` whose prompt had another number of tokens than requested.
	ISLMissed Counter = 12
	// OSLMissed: Completed requests whose output had another number of tokens than requested.
	OSLMissed Counter = 13
	// Connections: Connections opened.
	Connections Counter = 14
	// CoalescedReads: Reads that held more than one token frame of a stream.
	CoalescedReads Counter = 15
	// UnstampedFrames: Token frames timed by the program's clock because they had no kernel timestamp.
	UnstampedFrames Counter = 16
	// Good: Completed requests that met the stage's SLO, if it has one.
	Good Counter = 17
	// CachedTokens: Prompt tokens of completed requests that the server took from its prefix cache, by its usage.
	CachedTokens Counter = 18
	// WithCachedTokens: Completed requests whose usage reported cached tokens.
	WithCachedTokens Counter = 19
	// SharedTokens: Prompt tokens of completed requests in a prefix shared with an earlier request of the stage.
	SharedTokens Counter = 20
	// UnmeasuredFrames: Frames of unmeasured requests, counted like `frames`.
	UnmeasuredFrames Counter = 21
	// ISLCompared: Completed requests whose prompt length is known, as requested and by the server's usage.
	ISLCompared Counter = 22
	// UncountedFrames: Those of `frames` whose tokens no running usage reported.
	UncountedFrames Counter = 23
	// TokenFrames: Frames of completed requests that carried a token.
	TokenFrames Counter = 24
	// Chunks: Frames of completed requests that vLLM's client takes the time of.
	Chunks Counter = 25
	// WholeAnswers: Completed requests answered with one body although a stream was requested.
	WholeAnswers Counter = 26
	// InOneFrame: Completed streams of eight tokens or more, by usage, with one token frame.
	InOneFrame Counter = 27
	// WrittenAtOnce: Completed streams of eight or more token frames that the server wrote at once: they arrived in one read, or less than 20 us apart on average.
	WrittenAtOnce Counter = 28
	// TextBytes: Bytes of output text of completed requests, as encoded in JSON.
	TextBytes Counter = 29
	// ReasoningTokens: Reasoning tokens in the output of completed requests, by usage or else by the frames before the answer.
	ReasoningTokens Counter = 30
	// HiddenReasoningTokens: Those of `reasoning_tokens` that usage reports for requests that streamed no reasoning.
	HiddenReasoningTokens Counter = 31
	// Undecided: Completed streams with frames without text for which nothing shows whether they carried a token.
	Undecided Counter = 32
	// ISLFar: Those of `isl_missed` that were off by more than one token and by more than 1 % of the requested length.
	ISLFar Counter = 33
	// HeadTokens: Tokens in the first token frames of completed streams, where running usage reported them.
	HeadTokens Counter = 34
	// WithHeadTokens: Completed streams whose `head_tokens` are known.
	WithHeadTokens Counter = 35
	// StreamedAnswers: Completed requests answered with a stream although one body was requested.
	StreamedAnswers Counter = 36
	// UncountedOutputs: Completed requests whose output tokens are not known.
	UncountedOutputs Counter = 37
	// WithTools: Completed requests that defined tools.
	WithTools Counter = 38
	// WithToolCalls: Completed requests whose answer has a tool call.
	WithToolCalls Counter = 39
	// ToolCalls: Tool calls in the answers of completed requests.
	ToolCalls Counter = 40
	// ValidToolCalls: Those of `tool_calls` that name a tool of their request and have a JSON object as arguments.
	ValidToolCalls Counter = 41
	// CheckedAnswers: Completed requests that demanded a form of the answer which can be checked, and got no tool call.
	CheckedAnswers Counter = 42
	// ValidAnswers: Those of `checked_answers` whose answer has the form.
	ValidAnswers Counter = 43
	// CompletedSessions: Measured sessions all of whose requests completed.
	CompletedSessions Counter = 44
	// BrokenSessions: Measured sessions with a request that failed, was cancelled or was not sent because others were.
	BrokenSessions Counter = 45
	// Texts: Texts of completed requests whose number the workload sets: inputs of embeddings, documents of rerank and score.
	Texts Counter = 46
	// Images: Images in completed requests with usage, in addition to text of a requested length.
	Images Counter = 47
	// ImageTokens: Prompt tokens of these requests, by usage, beyond those requested for the text.
	ImageTokens Counter = 48
	// PacketFrames: Token frames with the time of the packet that carried their last byte, where the system allows it: --packet-times.
	PacketFrames Counter = 49
	// EndedStop: Completed requests that the model ended, or a stop word, by the finish reason.
	EndedStop Counter = 50
	// EndedLength: Completed requests that a limit on tokens ended, by the finish reason.
	EndedLength Counter = 51
	// EndedToolCalls: Completed requests that ended in tool calls, by the finish reason.
	EndedToolCalls Counter = 52
	// EndedFiltered: Completed requests that a content filter or a refusal ended, by the finish reason.
	EndedFiltered Counter = 53
	// EndedOther: Completed requests with another finish reason.
	EndedOther Counter = 54
	// SharedFrames: Token frames that share the time of a later one, because they were read together and have no times of packets.
	SharedFrames Counter = 55
	// LateFirstFrames: Completed streams whose first token frame has no time of its own: it is a shared frame, or lacks the kernel's timestamp.
	LateFirstFrames Counter = 56
	// LateLastFrames: Completed streams whose last token frame lacks the kernel's timestamp.
	LateLastFrames Counter = 57
	// Reconnected: Measured requests sent once more because the server closed a kept connection before it answered.
	Reconnected Counter = 58
	// LateEnds: Measured requests whose response had not ended a millisecond after its last event.
	LateEnds Counter = 59

	// CounterCount is one more than the highest counter, so that a counter is an index of Counts.
	CounterCount = 60
)

// counterTable is the catalogue of counters.
var counterTable = [CounterCount - 1]counter{
	{"started", "requests", "Measured requests that started", false},
	{"completed", "requests", "Measured requests that completed", false},
	{"failed", "requests", "Measured requests that failed: the sum of the errors", false},
	{"cancelled", "requests", "Measured requests cancelled by the drain timeout or a stop", false},
	{"unmeasured_started", "requests", "Unmeasured requests that started", false},
	{"unmeasured_ended", "requests", "Unmeasured requests that ended in any way", false},
	{"input_tokens", "tokens", "Prompt tokens of completed requests, by the server's usage", false},
	{"output_tokens", "tokens", "Output tokens of completed requests", false},
	{"frames", "frames", "Frames of measured requests that arrived and may carry a token, however the requests ended", false},
	{"tokens_arrived", "tokens", "Tokens in `frames`, by the server's running usage", false},
	{"without_usage", "requests", "Completed requests without usage from the server", true},
	{"isl_missed", "requests", "Completed requests in `isl_compared` whose prompt had another number of tokens than requested", true},
	{"osl_missed", "requests", "Completed requests whose output had another number of tokens than requested", true},
	{"connections", "connections", "Connections opened", false},
	{"coalesced_reads", "reads", "Reads that held more than one token frame of a stream", false},
	{"unstamped_frames", "frames", "Token frames timed by the program's clock because they had no kernel timestamp", false},
	{"good", "requests", "Completed requests that met the stage's SLO, if it has one", true},
	{"cached_tokens", "tokens", "Prompt tokens of completed requests that the server took from its prefix cache, by its usage", false},
	{"with_cached_tokens", "requests", "Completed requests whose usage reported cached tokens", true},
	{"shared_tokens", "tokens", "Prompt tokens of completed requests in a prefix shared with an earlier request of the stage", false},
	{"unmeasured_frames", "frames", "Frames of unmeasured requests, counted like `frames`", false},
	{"isl_compared", "requests", "Completed requests whose prompt length is known, as requested and by the server's usage", true},
	{"uncounted_frames", "frames", "Those of `frames` whose tokens no running usage reported", false},
	{"token_frames", "frames", "Frames of completed requests that carried a token", false},
	{"chunks", "frames", "Frames of completed requests that vLLM's client takes the time of", false},
	{"whole_answers", "requests", "Completed requests answered with one body although a stream was requested", true},
	{"in_one_frame", "requests", "Completed streams of eight tokens or more, by usage, with one token frame", true},
	{"written_at_once", "requests", "Completed streams of eight or more token frames that the server wrote at once: they arrived in one read, or less than 20 us apart on average", true},
	{"text_bytes", "bytes", "Bytes of output text of completed requests, as encoded in JSON", false},
	{"reasoning_tokens", "tokens", "Reasoning tokens in the output of completed requests, by usage or else by the frames before the answer", false},
	{"hidden_reasoning_tokens", "tokens", "Those of `reasoning_tokens` that usage reports for requests that streamed no reasoning", false},
	{"undecided", "requests", "Completed streams with frames without text for which nothing shows whether they carried a token", true},
	{"isl_far", "requests", "Those of `isl_missed` that were off by more than one token and by more than 1 % of the requested length", true},
	{"head_tokens", "tokens", "Tokens in the first token frames of completed streams, where running usage reported them", false},
	{"with_head_tokens", "requests", "Completed streams whose `head_tokens` are known", true},
	{"streamed_answers", "requests", "Completed requests answered with a stream although one body was requested", true},
	{"uncounted_outputs", "requests", "Completed requests whose output tokens are not known", true},
	{"with_tools", "requests", "Completed requests that defined tools", true},
	{"with_tool_calls", "requests", "Completed requests whose answer has a tool call", true},
	{"tool_calls", "calls", "Tool calls in the answers of completed requests", false},
	{"valid_tool_calls", "calls", "Those of `tool_calls` that name a tool of their request and have a JSON object as arguments", false},
	{"checked_answers", "requests", "Completed requests that demanded a form of the answer which can be checked, and got no tool call", true},
	{"valid_answers", "requests", "Those of `checked_answers` whose answer has the form", true},
	{"completed_sessions", "sessions", "Measured sessions all of whose requests completed", false},
	{"broken_sessions", "sessions", "Measured sessions with a request that failed, was cancelled or was not sent because others were", false},
	{"texts", "texts", "Texts of completed requests whose number the workload sets: inputs of embeddings, documents of rerank and score", false},
	{"images", "images", "Images in completed requests with usage, in addition to text of a requested length", false},
	{"image_tokens", "tokens", "Prompt tokens of these requests, by usage, beyond those requested for the text", false},
	{"packet_frames", "frames", "Token frames with the time of the packet that carried their last byte, where the system allows it: --packet-times", false},
	{"ended_stop", "requests", "Completed requests that the model ended, or a stop word, by the finish reason", true},
	{"ended_length", "requests", "Completed requests that a limit on tokens ended, by the finish reason", true},
	{"ended_tool_calls", "requests", "Completed requests that ended in tool calls, by the finish reason", true},
	{"ended_filtered", "requests", "Completed requests that a content filter or a refusal ended, by the finish reason", true},
	{"ended_other", "requests", "Completed requests with another finish reason", true},
	{"shared_frames", "frames", "Token frames that share the time of a later one, because they were read together and have no times of packets", false},
	{"late_first_frames", "requests", "Completed streams whose first token frame has no time of its own: it is a shared frame, or lacks the kernel's timestamp", true},
	{"late_last_frames", "requests", "Completed streams whose last token frame lacks the kernel's timestamp", true},
	{"reconnected", "requests", "Measured requests sent once more because the server closed a kept connection before it answered", false},
	{"late_ends", "requests", "Measured requests whose response had not ended a millisecond after its last event", false},
}
