package measure

import (
	"reflect"
	"strconv"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Counter names a counter by the number of its field in spatev1.Counters.
type Counter uint8

// Counters, by their numbers in the protocol.
const (
	Started Counter = iota + 1
	Completed
	Failed
	Cancelled
	UnmeasuredStarted
	UnmeasuredEnded
	InputTokens
	OutputTokens
	Frames
	TokensArrived
	WithoutUsage
	ISLMissed
	OSLMissed
	Connections
	CoalescedReads
	UnstampedFrames
	Good
	CachedTokens
	WithCachedTokens
	SharedTokens
	UnmeasuredFrames
	ISLCompared
	UncountedFrames
	TokenFrames
	Chunks
	WholeAnswers
	InOneFrame
	InOneRead
	TextBytes
	ReasoningTokens
	HiddenReasoningTokens
	Undecided
	ISLFar
	HeadTokens
	WithHeadTokens
	StreamedAnswers
	UncountedOutputs
	WithTools
	WithToolCalls
	ToolCalls
	ValidToolCalls
	CheckedAnswers
	ValidAnswers
	CompletedSessions
	BrokenSessions
	Texts
	Images
	ImageTokens
	PacketFrames
	EndedStop
	EndedLength
	EndedToolCalls
	EndedFiltered
	EndedOther
	SharedFrames
	LateFirstFrames
	LateLastFrames
	Reconnected
	LateEnds

	// CounterCount is one more than the highest counter, so that a counter is an index of Counts.
	CounterCount
)

// Counts holds the value of each counter, indexed by Counter. Counts[0] is not used.
type Counts [CounterCount]uint64

// counter is a row of the catalogue.
type counter struct {
	id   Counter
	name string
	// unit is what the counter counts, in the plural.
	unit string
	// doc says what the counter counts, in one sentence: the first of the comment in metrics.proto.
	doc string
	// ofCompleted says that the counter counts completed requests, so it never exceeds Completed.
	ofCompleted bool
	// known reports whether the value is complete. Nil: it always is.
	known func(*Counts) bool
}

// counterTable is the catalogue of counters, in the order of the protocol. The names are the protocol's.
var counterTable = [CounterCount - 1]counter{
	{id: Started, name: "started", unit: "requests",
		doc: "Measured requests that started"},
	{id: Completed, name: "completed", unit: "requests",
		doc: "Measured requests that completed"},
	{id: Failed, name: "failed", unit: "requests",
		doc: "Measured requests that failed: the sum of the errors"},
	{id: Cancelled, name: "cancelled", unit: "requests",
		doc: "Measured requests cancelled by the drain timeout or a stop"},
	{id: UnmeasuredStarted, name: "unmeasured_started", unit: "requests",
		doc: "Unmeasured requests that started"},
	{id: UnmeasuredEnded, name: "unmeasured_ended", unit: "requests",
		doc: "Unmeasured requests that ended in any way"},
	{id: InputTokens, name: "input_tokens", unit: "tokens", known: allHaveUsage,
		doc: "Prompt tokens of completed requests, by the server's usage"},
	{id: OutputTokens, name: "output_tokens", unit: "tokens", known: allOutputsCounted,
		doc: "Output tokens of completed requests"},
	{id: Frames, name: "frames", unit: "frames",
		doc: "Frames of measured requests that arrived and may carry a token, however the requests ended"},
	{id: TokensArrived, name: "tokens_arrived", unit: "tokens", known: allFramesCounted,
		doc: "Tokens in `frames`, by the server's running usage"},
	{id: WithoutUsage, name: "without_usage", unit: "requests", ofCompleted: true,
		doc: "Completed requests without usage from the server"},
	{id: ISLMissed, name: "isl_missed", unit: "requests", ofCompleted: true,
		doc: "Completed requests in `isl_compared` whose prompt had another number of tokens than requested"},
	{id: OSLMissed, name: "osl_missed", unit: "requests", ofCompleted: true,
		doc: "Completed requests whose output had another number of tokens than requested"},
	{id: Connections, name: "connections", unit: "connections",
		doc: "Connections opened"},
	{id: CoalescedReads, name: "coalesced_reads", unit: "reads",
		doc: "Reads that held more than one token frame of a stream"},
	{id: UnstampedFrames, name: "unstamped_frames", unit: "frames",
		doc: "Token frames timed by the program's clock because they had no kernel timestamp"},
	{id: Good, name: "good", unit: "requests", ofCompleted: true,
		doc: "Completed requests that met the stage's SLO, if it has one"},
	{id: CachedTokens, name: "cached_tokens", unit: "tokens", known: allTellCachedTokens,
		doc: "Prompt tokens of completed requests that the server took from its prefix cache, by its usage"},
	{id: WithCachedTokens, name: "with_cached_tokens", unit: "requests", ofCompleted: true,
		doc: "Completed requests whose usage reported cached tokens"},
	{id: SharedTokens, name: "shared_tokens", unit: "tokens",
		doc: "Prompt tokens of completed requests in a prefix shared with an earlier request of the stage"},
	{id: UnmeasuredFrames, name: "unmeasured_frames", unit: "frames",
		doc: "Frames of unmeasured requests, counted like `frames`"},
	{id: ISLCompared, name: "isl_compared", unit: "requests", ofCompleted: true,
		doc: "Completed requests whose prompt length is known, as requested and by the server's usage"},
	{id: UncountedFrames, name: "uncounted_frames", unit: "frames",
		doc: "Those of `frames` whose tokens no running usage reported"},
	{id: TokenFrames, name: "token_frames", unit: "frames",
		doc: "Frames of completed requests that carried a token"},
	{id: Chunks, name: "chunks", unit: "frames",
		doc: "Frames of completed requests that vLLM's client takes the time of"},
	{id: WholeAnswers, name: "whole_answers", unit: "requests", ofCompleted: true,
		doc: "Completed requests answered with one body although a stream was requested"},
	{id: InOneFrame, name: "in_one_frame", unit: "requests", ofCompleted: true,
		doc: "Completed streams of eight tokens or more, by usage, with one token frame"},
	{id: InOneRead, name: "in_one_read", unit: "requests", ofCompleted: true,
		doc: "Completed streams of eight or more token frames that the server wrote at once: they arrived in one read, or less than 20 us apart on average"},
	{id: TextBytes, name: "text_bytes", unit: "bytes",
		doc: "Bytes of output text of completed requests, as encoded in JSON"},
	{id: ReasoningTokens, name: "reasoning_tokens", unit: "tokens",
		doc: "Reasoning tokens in the output of completed requests, by usage or else by the frames before the answer"},
	{id: HiddenReasoningTokens, name: "hidden_reasoning_tokens", unit: "tokens",
		doc: "Those of `reasoning_tokens` that usage reports for requests that streamed no reasoning"},
	{id: Undecided, name: "undecided", unit: "requests", ofCompleted: true,
		doc: "Completed streams with frames without text for which nothing shows whether they carried a token"},
	{id: ISLFar, name: "isl_far", unit: "requests", ofCompleted: true,
		doc: "Those of `isl_missed` that were off by more than one token and by more than 1 % of the requested length"},
	{id: HeadTokens, name: "head_tokens", unit: "tokens",
		doc: "Tokens in the first token frames of completed streams, where running usage reported them"},
	{id: WithHeadTokens, name: "with_head_tokens", unit: "requests", ofCompleted: true,
		doc: "Completed streams whose `head_tokens` are known"},
	{id: StreamedAnswers, name: "streamed_answers", unit: "requests", ofCompleted: true,
		doc: "Completed requests answered with a stream although one body was requested"},
	{id: UncountedOutputs, name: "uncounted_outputs", unit: "requests", ofCompleted: true,
		doc: "Completed requests whose output tokens are not known"},
	{id: WithTools, name: "with_tools", unit: "requests", ofCompleted: true,
		doc: "Completed requests that defined tools"},
	{id: WithToolCalls, name: "with_tool_calls", unit: "requests", ofCompleted: true,
		doc: "Completed requests whose answer has a tool call"},
	{id: ToolCalls, name: "tool_calls", unit: "calls",
		doc: "Tool calls in the answers of completed requests"},
	{id: ValidToolCalls, name: "valid_tool_calls", unit: "calls",
		doc: "Those of `tool_calls` that name a tool of their request and have a JSON object as arguments"},
	{id: CheckedAnswers, name: "checked_answers", unit: "requests", ofCompleted: true,
		doc: "Completed requests that demanded a form of the answer which can be checked, and got no tool call"},
	{id: ValidAnswers, name: "valid_answers", unit: "requests", ofCompleted: true,
		doc: "Those of `checked_answers` whose answer has the form"},
	{id: CompletedSessions, name: "completed_sessions", unit: "sessions",
		doc: "Measured sessions all of whose requests completed"},
	{id: BrokenSessions, name: "broken_sessions", unit: "sessions",
		doc: "Measured sessions with a request that failed, was cancelled or was not sent because others were"},
	{id: Texts, name: "texts", unit: "texts",
		doc: "Texts of completed requests whose number the workload sets: inputs of embeddings, documents of rerank and score"},
	{id: Images, name: "images", unit: "images",
		doc: "Images in completed requests with usage, in addition to text of a requested length"},
	{id: ImageTokens, name: "image_tokens", unit: "tokens",
		doc: "Prompt tokens of these requests, by usage, beyond those requested for the text"},
	{id: PacketFrames, name: "packet_frames", unit: "frames",
		doc: "Token frames with the time of the packet that carried their last byte, where the system allows it: --packet-times"},
	{id: EndedStop, name: "ended_stop", unit: "requests", ofCompleted: true,
		doc: "Completed requests that the model ended, or a stop word, by the finish reason"},
	{id: EndedLength, name: "ended_length", unit: "requests", ofCompleted: true,
		doc: "Completed requests that a limit on tokens ended, by the finish reason"},
	{id: EndedToolCalls, name: "ended_tool_calls", unit: "requests", ofCompleted: true,
		doc: "Completed requests that ended in tool calls, by the finish reason"},
	{id: EndedFiltered, name: "ended_filtered", unit: "requests", ofCompleted: true,
		doc: "Completed requests that a content filter or a refusal ended, by the finish reason"},
	{id: EndedOther, name: "ended_other", unit: "requests", ofCompleted: true,
		doc: "Completed requests with another finish reason"},
	{id: SharedFrames, name: "shared_frames", unit: "frames",
		doc: "Token frames that share the time of a later one, because they were read together and have no times of packets"},
	{id: LateFirstFrames, name: "late_first_frames", unit: "requests", ofCompleted: true,
		doc: "Completed streams whose first token frame has no time of its own: it is a shared frame, or lacks the kernel's timestamp"},
	{id: LateLastFrames, name: "late_last_frames", unit: "requests", ofCompleted: true,
		doc: "Completed streams whose last token frame lacks the kernel's timestamp"},
	{id: Reconnected, name: "reconnected", unit: "requests",
		doc: "Measured requests sent once more because the server closed a kept connection before it answered"},
	{id: LateEnds, name: "late_ends", unit: "requests",
		doc: "Measured requests whose response had not ended a millisecond after its last event"},
}

func allHaveUsage(c *Counts) bool { return c[WithoutUsage] == 0 }

func allOutputsCounted(c *Counts) bool { return c[UncountedOutputs] == 0 }

func allFramesCounted(c *Counts) bool { return c[UncountedFrames] == 0 }

func allTellCachedTokens(c *Counts) bool {
	return c[WithCachedTokens] > 0 && c[WithCachedTokens] == c[Completed]
}

// Counters returns all counters, in the order of the protocol.
func Counters() []Counter {
	all := make([]Counter, 0, len(counterTable))
	for _, row := range counterTable {
		all = append(all, row.id)
	}
	return all
}

// String returns the counter's name in the protocol and in databases.
func (c Counter) String() string { return counterTable[c-1].name }

// Unit returns what the counter counts, in the plural.
func (c Counter) Unit() string { return counterTable[c-1].unit }

// Doc says what the counter counts, in one sentence without a full stop.
func (c Counter) Doc() string { return counterTable[c-1].doc }

// OfCompleted reports whether the counter counts completed requests, so that it never exceeds Completed.
func (c Counter) OfCompleted() bool { return counterTable[c-1].ofCompleted }

// KnownIn reports whether the counter's value in counts is complete. It is not if, for example, some requests had no
// usage.
func (c Counter) KnownIn(counts *Counts) bool {
	known := counterTable[c-1].known
	return known == nil || known(counts)
}

// fields maps a counter to the index of its field in the Go struct of spatev1.Counters.
var fields = fieldsOf(reflect.TypeFor[spatev1.Counters]())

// fieldsOf reads the field numbers that protoc-gen-go writes into the tags of a message's fields: "varint,7,opt,...".
func fieldsOf(message reflect.Type) (index [CounterCount]int) {
	for i := range message.NumField() {
		tag := strings.Split(message.Field(i).Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue // not a field of the protocol
		}
		if number, err := strconv.Atoi(tag[1]); err == nil && number < int(CounterCount) {
			index[number] = i
		}
	}
	return index
}

// CountsOf returns the values of a message. For nil all are 0.
func CountsOf(c *spatev1.Counters) (counts Counts) {
	if c == nil {
		return counts
	}
	message := reflect.ValueOf(c).Elem()
	for id := Started; id < CounterCount; id++ {
		counts[id] = message.Field(fields[id]).Uint()
	}
	return counts
}

// Proto returns the counts as a message.
func (c *Counts) Proto() *spatev1.Counters {
	m := &spatev1.Counters{}
	message := reflect.ValueOf(m).Elem()
	for id := Started; id < CounterCount; id++ {
		message.Field(fields[id]).SetUint(c[id])
	}
	return m
}

// Add adds other to c.
func (c *Counts) Add(other *Counts) {
	for id, n := range other {
		c[id] += n
	}
}

// AddTo adds the counters of from to to. from may be nil.
func AddTo(to, from *spatev1.Counters) {
	if from == nil {
		return
	}
	into, message := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for id := Started; id < CounterCount; id++ {
		if n := message.Field(fields[id]).Uint(); n != 0 {
			field := into.Field(fields[id])
			field.SetUint(field.Uint() + n)
		}
	}
}
