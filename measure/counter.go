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

	// CounterCount is one more than the highest counter, so that a counter is an index of Counts.
	CounterCount
)

// Counts holds the value of each counter, indexed by Counter. Counts[0] is not used.
type Counts [CounterCount]uint64

// counter is a row of the catalogue.
type counter struct {
	id   Counter
	name string
	// ofCompleted says that the counter counts completed requests, so it never exceeds Completed.
	ofCompleted bool
	// known reports whether the value is complete. Nil: it always is.
	known func(*Counts) bool
}

// counterTable is the catalogue of counters, in the order of the protocol. The names are the protocol's.
var counterTable = [CounterCount - 1]counter{
	{id: Started, name: "started"},
	{id: Completed, name: "completed"},
	{id: Failed, name: "failed"},
	{id: Cancelled, name: "cancelled"},
	{id: UnmeasuredStarted, name: "unmeasured_started"},
	{id: UnmeasuredEnded, name: "unmeasured_ended"},
	{id: InputTokens, name: "input_tokens", known: allHaveUsage},
	{id: OutputTokens, name: "output_tokens"},
	{id: Frames, name: "frames"},
	{id: TokensArrived, name: "tokens_arrived", known: allFramesCounted},
	{id: WithoutUsage, name: "without_usage", ofCompleted: true},
	{id: ISLMissed, name: "isl_missed", ofCompleted: true},
	{id: OSLMissed, name: "osl_missed", ofCompleted: true},
	{id: Connections, name: "connections"},
	{id: CoalescedReads, name: "coalesced_reads"},
	{id: UnstampedFrames, name: "unstamped_frames"},
	{id: Good, name: "good", ofCompleted: true},
	{id: CachedTokens, name: "cached_tokens", known: allTellCachedTokens},
	{id: WithCachedTokens, name: "with_cached_tokens", ofCompleted: true},
	{id: SharedTokens, name: "shared_tokens"},
	{id: UnmeasuredFrames, name: "unmeasured_frames"},
	{id: ISLCompared, name: "isl_compared", ofCompleted: true},
	{id: UncountedFrames, name: "uncounted_frames"},
	{id: TokenFrames, name: "token_frames"},
	{id: Chunks, name: "chunks"},
	{id: WholeAnswers, name: "whole_answers", ofCompleted: true},
	{id: InOneFrame, name: "in_one_frame", ofCompleted: true},
	{id: InOneRead, name: "in_one_read", ofCompleted: true},
	{id: TextBytes, name: "text_bytes"},
	{id: ReasoningTokens, name: "reasoning_tokens"},
	{id: HiddenReasoningTokens, name: "hidden_reasoning_tokens"},
	{id: Undecided, name: "undecided", ofCompleted: true},
	{id: ISLFar, name: "isl_far", ofCompleted: true},
	{id: HeadTokens, name: "head_tokens"},
	{id: WithHeadTokens, name: "with_head_tokens", ofCompleted: true},
}

func allHaveUsage(c *Counts) bool { return c[WithoutUsage] == 0 }

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
