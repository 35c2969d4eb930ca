package measure

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Counter names a counter by the number of its field in spatev1.Counters, from whose comments the counters and what
// they count are generated.
type Counter uint8

// Counts holds the value of each counter, indexed by Counter. Counts[0] is not used.
type Counts [CounterCount]uint64

// counter is a row of the catalogue, in the order of the protocol.
type counter struct {
	name string
	// unit is what the counter counts, in the plural.
	unit string
	// doc says what the counter counts, in one sentence: the first of the comment in metrics.proto.
	doc string
	// ofCompleted says that the counter counts completed requests, so it never exceeds Completed.
	ofCompleted bool
}

// known reports whether the values of some counters are complete. Those of others always are.
var known = map[Counter]func(*Counts) bool{
	InputTokens:   func(c *Counts) bool { return c[WithoutUsage] == 0 },
	OutputTokens:  func(c *Counts) bool { return c[UncountedOutputs] == 0 },
	TokensArrived: func(c *Counts) bool { return c[UncountedFrames] == 0 },
	CachedTokens:  func(c *Counts) bool { return c[WithCachedTokens] > 0 && c[WithCachedTokens] == c[Completed] },
}

// Counters returns all counters, in the order of the protocol.
func Counters() []Counter {
	all := make([]Counter, len(counterTable))
	for i := range all {
		all[i] = Counter(i + 1)
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
	complete := known[c]
	return complete == nil || complete(counts)
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

// ErrorName returns the name of a kind of failure in results.json, in request rows and in databases: the class, or
// "http_" and the status.
func ErrorName(class spatev1.ErrorClass, httpStatus uint32) string {
	if class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS {
		return fmt.Sprintf("http_%d", httpStatus)
	}
	return strings.ToLower(strings.TrimPrefix(class.String(), "ERROR_CLASS_"))
}
