// Code generated from metrics.proto by make generate. DO NOT EDIT.

package measure

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

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
	// Canaries: Canaries that were answered beside the load.
	Canaries Counter = 60
	// CanariesDiffering: Those of `canaries` whose answer is not that of the quiet server.
	CanariesDiffering Counter = 61
	// CanariesFailed: Canaries that failed or were cancelled.
	CanariesFailed Counter = 62
	// CanaryTasks: Those of `canaries` that are tasks.
	CanaryTasks Counter = 63
	// CanaryTasksRight: Those of `canary_tasks` that were answered right.
	CanaryTasksRight Counter = 64
	// CanaryWordsAlike: Words of the differing answers to canaries before their first difference from those of the quiet server.
	CanaryWordsAlike Counter = 65
	// GarbledAnswers: Completed requests whose text has replacement characters, or one token over and over.
	GarbledAnswers Counter = 66
	// EmptyAnswers: Completed requests with output tokens, and no text and no tool call.
	EmptyAnswers Counter = 67

	// CounterCount is one more than the highest counter, so that a counter is an index of Counts.
	CounterCount = 68
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
	{"canaries", "requests", "Canaries that were answered beside the load", false},
	{"canaries_differing", "requests", "Those of `canaries` whose answer is not that of the quiet server", false},
	{"canaries_failed", "requests", "Canaries that failed or were cancelled", false},
	{"canary_tasks", "requests", "Those of `canaries` that are tasks", false},
	{"canary_tasks_right", "requests", "Those of `canary_tasks` that were answered right", false},
	{"canary_words_alike", "words", "Words of the differing answers to canaries before their first difference from those of the quiet server", false},
	{"garbled_answers", "requests", "Completed requests whose text has replacement characters, or one token over and over", true},
	{"empty_answers", "requests", "Completed requests with output tokens, and no text and no tool call", true},
}

// metrics is the catalogue of metrics, in the order of the protocol.
var metrics = [...]Metric{
	{ID: spatev1.Metric_METRIC_TTFT, Parts: Breakdowns | RegionWindows | Turns, Name: "ttft_ms", Doc: "First token - start"},
	{ID: spatev1.Metric_METRIC_TTFT_SCHEDULED, Name: "ttft_scheduled_ms", Doc: "First token - scheduled"},
	{ID: spatev1.Metric_METRIC_E2E, Parts: Breakdowns | RegionWindows | Turns, Name: "e2e_ms", Doc: "Last token - start"},
	{ID: spatev1.Metric_METRIC_E2E_SCHEDULED, Name: "e2e_scheduled_ms", Doc: "Last token - scheduled"},
	{ID: spatev1.Metric_METRIC_TPOT, Parts: Breakdowns | RegionWindows, Name: "tpot_ms", Doc: "(Last - first token) / (output tokens - 1)"},
	{ID: spatev1.Metric_METRIC_ITL, Parts: RegionWindows, Name: "itl_ms", Doc: "Gaps between consecutive token frames"},
	{ID: spatev1.Metric_METRIC_SEND_DELAY, Parts: RegionWindows, Name: "send_delay_ms", Doc: "Start - scheduled, without the time for which max_in_flight held the request back"},
	{ID: spatev1.Metric_METRIC_CONNECT, Parts: RegionWindows | Paths, Name: "connect_ms", Doc: "DNS + TCP + TLS of requests that opened a connection"},
	{ID: spatev1.Metric_METRIC_ISL, Unit: Tokens, Name: "isl_tokens", Doc: "Prompt tokens by the server's usage"},
	{ID: spatev1.Metric_METRIC_OSL, Unit: Tokens, Name: "osl_tokens", Doc: "Output tokens"},
	{ID: spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME, Unit: Thousandths, Name: "tokens_per_frame", Doc: "Output tokens per token frame, one value per request"},
	{ID: spatev1.Metric_METRIC_FAILURE_TIME, Name: "failure_time_ms", Doc: "Failure - start, of failed requests"},
	{ID: spatev1.Metric_METRIC_RECEIVE_LAG, Name: "receive_lag_ms", Doc: "Program's read time - kernel's receive time, once for each read with a token frame"},
	{ID: spatev1.Metric_METRIC_VLLM_TTFT, Name: "vllm_ttft_ms", Doc: "First chunk - start: what vLLM's benchmark calls TTFT"},
	{ID: spatev1.Metric_METRIC_VLLM_ITL_ADDED, Raw: true, Name: "vllm_itl_added_ms", Doc: "Gaps between chunks that are not gaps between token frames"},
	{ID: spatev1.Metric_METRIC_VLLM_TPOT, Name: "vllm_tpot_ms", Doc: "(Last - first chunk) / (output tokens - 1): what vLLM's benchmark calls TPOT"},
	{ID: spatev1.Metric_METRIC_RTT, Parts: RegionWindows | Paths, Name: "rtt_ms", Doc: "Round trip to the endpoint as the kernel measured it when the connection was opened, once per connection"},
	{ID: spatev1.Metric_METRIC_DNS, Name: "dns_ms", Doc: "Name lookup of requests that opened a connection, if there was a name to look up"},
	{ID: spatev1.Metric_METRIC_TCP, Name: "tcp_ms", Doc: "TCP handshake of requests that opened a connection, including a proxy's CONNECT"},
	{ID: spatev1.Metric_METRIC_TLS, Name: "tls_ms", Doc: "TLS handshake of requests that opened a connection with TLS"},
	{ID: spatev1.Metric_METRIC_VLLM_E2E, Name: "vllm_e2e_ms", Doc: "Last chunk - start: what vLLM's benchmark calls E2EL"},
	{ID: spatev1.Metric_METRIC_VLLM_ITL_LEFT_OUT, Raw: true, Name: "vllm_itl_left_out_ms", Doc: "Gaps between token frames that are not gaps between chunks"},
	{ID: spatev1.Metric_METRIC_TTFT_TEXT, Name: "ttft_text_ms", Doc: "First frame with text - start, of requests whose first token had no text"},
	{ID: spatev1.Metric_METRIC_TTFT_ANSWER, Name: "ttft_answer_ms", Doc: "First frame with text of the answer - start, of requests whose first text was reasoning"},
	{ID: spatev1.Metric_METRIC_REASONING, Name: "reasoning_ms", Doc: "First frame of the answer - first token, of requests that streamed reasoning"},
	{ID: spatev1.Metric_METRIC_REASONING_TOKENS, Unit: Tokens, Name: "reasoning_tokens", Doc: "Reasoning tokens of requests that had some and whose number is known"},
	{ID: spatev1.Metric_METRIC_START_GAP, Name: "start_gap_ms", Doc: "Time from a measured start to the next measured start of the same agent, whatever the endpoints"},
	{ID: spatev1.Metric_METRIC_SERVER_TTFT, Name: "server_ttft_ms", Doc: "Time to first token, as the server reported it within the stream"},
	{ID: spatev1.Metric_METRIC_SERVER_QUEUE, Name: "server_queue_ms", Doc: "Wait for the prefill, as the server reported it within the stream"},
	{ID: spatev1.Metric_METRIC_SERVER_PREFILL, Name: "server_prefill_ms", Doc: "Prefill time, as the server reported it within the stream"},
	{ID: spatev1.Metric_METRIC_SERVER_TOTAL, Name: "server_total_ms", Doc: "Total time of the request, as the server reported it within the stream"},
	{ID: spatev1.Metric_METRIC_HELD, Name: "held_ms", Doc: "Time for which max_in_flight held a request back: from scheduled until a place was free"},
	{ID: spatev1.Metric_METRIC_TASK, Name: "task_ms", Doc: "End of a session's last request - start of its first"},
	{ID: spatev1.Metric_METRIC_TASK_REQUESTS, Name: "task_requests_ms", Doc: "Time in requests on the critical path of such a session, from start to end"},
	{ID: spatev1.Metric_METRIC_TASK_DELAYS, Name: "task_delays_ms", Doc: "Rest of the time of such a session: delays of tools and users on the critical path"},
	{ID: spatev1.Metric_METRIC_LATE_END, Name: "late_end_ms", Doc: "End of a response - its last event, if that is more than a millisecond"},
}
