package measure

import (
	"math/bits"
	"slices"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Metric describes one distribution.
type Metric struct {
	// ID is the metric's number in the protocol.
	ID spatev1.Metric
	// Name is the metric's name in results.json and in databases. It ends with the unit used there.
	Name string
	// Doc says what the values are, in one sentence: the first of the comment in metrics.proto.
	Doc string
	// Unit is the unit of recorded values.
	Unit Unit
	// Parts are the parts of a stage that keep the metric, besides the whole stage and its windows.
	Parts Parts
	// Raw metrics are recorded only to compute others. Results and databases do not show them.
	Raw bool
}

// Unit is the unit of a metric's recorded values.
type Unit uint8

const (
	// Nanoseconds are recorded for times. Results have milliseconds.
	Nanoseconds Unit = iota
	// Tokens are recorded as they are.
	Tokens
	// Thousandths are recorded for ratios.
	Thousandths
)

// Scale returns the divisor that converts recorded values to the unit of results.
func (u Unit) Scale() float64 {
	switch u {
	case Tokens:
		return 1
	case Thousandths:
		return 1e3
	case Nanoseconds:
	}
	return 1e6
}

// Base returns the divisor that converts recorded values to the base units of Prometheus and OpenTelemetry: seconds,
// tokens, ratios.
func (u Unit) Base() float64 {
	if u == Nanoseconds {
		return 1e9
	}
	return u.Scale()
}

// Parts is a set of parts of a stage. Histograms are large, so a part keeps only the metrics that it shows.
type Parts uint8

const (
	// Breakdowns are endpoints and agents.
	Breakdowns Parts = 1 << iota
	// RegionWindows are single windows of a region.
	RegionWindows
	// Paths are the connections from a region to an endpoint.
	Paths
	// Turns are the turns of sessions.
	Turns
)

// Count is one more than the highest metric, so that a metric is an index of an array.
const Count = int(spatev1.Metric_METRIC_LATE_END) + 1

// Metrics returns the catalogue, in the order of the protocol. Do not change it.
func Metrics() []Metric { return metrics[:] }

// Known reports whether this program knows a metric.
func Known(id spatev1.Metric) bool { return id > 0 && int(id) < Count }

// Of returns a metric by its number, the zero Metric if it is unknown.
func Of(id spatev1.Metric) Metric {
	if !Known(id) {
		return Metric{}
	}
	return metrics[id-1]
}

// Set is a set of metrics.
type Set uint64

// All is the set of all metrics.
const All Set = 1<<Count - 2

// SetOf returns the set of some metrics.
func SetOf(ids ...spatev1.Metric) Set {
	var set Set
	for _, id := range ids {
		set |= 1 << id
	}
	return set
}

// KeptBy returns the metrics that a part of a stage keeps.
func KeptBy(part Parts) Set {
	var set Set
	for _, m := range metrics {
		if m.Parts&part != 0 {
			set |= 1 << m.ID
		}
	}
	return set
}

// Has reports whether a metric is in the set.
func (s Set) Has(id spatev1.Metric) bool { return s&(1<<id) != 0 }

const (
	// OtherModels stands for the models that answers named beyond those that are known by name.
	OtherModels = "(other)"
	// maxMergedModels is how many models the sum of several agents knows by name.
	maxMergedModels = 64
)

// AddModels adds the counts of from to those of to, and returns the extended to. It changes no message of from.
func AddModels(to, from []*spatev1.ModelCount) []*spatev1.ModelCount {
	for _, m := range from {
		name := m.GetModel()
		place := func() int {
			return slices.IndexFunc(to, func(o *spatev1.ModelCount) bool { return o.GetModel() == name })
		}
		i := place()
		if i < 0 && len(to) >= maxMergedModels {
			name = OtherModels
			i = place()
		}
		if i < 0 {
			to = append(to, proto.CloneOf(m))
			to[len(to)-1].Model = name
			continue
		}
		to[i].Requests += m.GetRequests()
		to[i].E2EUs += m.GetE2EUs()
		to[i].Streamed += m.GetStreamed()
		to[i].TtftUs += m.GetTtftUs()
	}
	return to
}

// Turns of sessions are measured in classes, so that long sessions take a bounded number of histograms: the first
// singleTurns turns by themselves, then as many as all before them together.
const singleTurns = 16

// TurnClasses is the number of classes of turns, from 0.
const TurnClasses = singleTurns + 32 - 4

// TurnClass returns the class of a turn, which counts from 0.
func TurnClass(turn uint32) int {
	if turn < singleTurns {
		return int(turn)
	}
	return singleTurns + bits.Len32(turn) - bits.Len32(singleTurns)
}

// TurnsOf returns the first and the last turn of a class.
func TurnsOf(class int) (first, last uint32) {
	if class < singleTurns {
		return uint32(class), uint32(class)
	}
	first = singleTurns << (class - singleTurns)
	return first, first + (first - 1)
}

// Bounds of what an agent records. Whatever a server sends, a recorder stays within these bounds, and the coordinator
// accepts what is within them. Both use this table, so that no server can cause a snapshot that is refused. A request
// beyond the bounds fails with ERROR_CLASS_OUT_OF_RANGE.
const (
	// MaxTokens bounds each token count that a server reports for one request: 16.8 million. The longest contexts hold
	// 10 million.
	MaxTokens = 1 << 24
	// MaxFrames bounds the frames that are kept of one stream, so that its request row fits into a snapshot.
	MaxFrames = 1 << 20
	// MaxAnswer bounds the text of one answer, in bytes: 32 GiB. MaxFrames frames of log probabilities take 16 GiB.
	MaxAnswer = 1 << 35
	// MaxWindow is the last window of the longest stage: a week of load, a day of warm-up, a day of drain, and a
	// request of an hour.
	MaxWindow = (7+1+1)*86400 + 3600
	// MinStatus is the smallest HTTP status.
	MinStatus = 100
	// MaxStatus is the largest HTTP status: the largest number of three digits.
	MaxStatus = 999
	// MaxWindowCount bounds a counter of one window and endpoint. It is MaxTokens for each of 2^18 requests, or
	// MaxAnswer for each of 2^7.
	MaxWindowCount = 1 << 42
	// MaxTotal bounds a counter of a stage. JSON numbers are exact up to 2^53.
	MaxTotal = 1 << 52
	// MaxValues bounds the values of one distribution in a snapshot. A histogram holds 2^44.
	MaxValues = 1 << 28
	// MaxText bounds the example of an error, and each text of a request row, in bytes.
	MaxText = 512
	// MaxModels is how many models that answers name an agent knows by name in a stage. All others are OtherModels.
	MaxModels = 8
	// MaxReason bounds the reason why an agent ended its share, in bytes.
	MaxReason = 4096
	// MaxExamples is how many kinds of errors of one window and endpoint keep an example. Servers can invent 900 kinds.
	MaxExamples = 16
)

// FirstWindow returns the first window that a snapshot covers: its only window, unless its agent merged several.
func FirstWindow(s *spatev1.Snapshot) uint32 {
	if s.FirstWindow == nil {
		return s.GetWindow()
	}
	return min(s.GetFirstWindow(), s.GetWindow())
}
