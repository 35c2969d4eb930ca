package loadpoint

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Words describes a load point, without its ends: "concurrency 8", "2 req/s poisson", "replay x10". It adds the
// repeat, the think time and settings of the arrivals that are not the default, so that points of one plan that differ
// in more than their ends have different descriptions.
func Words(l *spatev1.LoadPoint) string {
	words := kindWords(l)
	if t := l.GetThinkTime(); t != nil {
		words += fmt.Sprintf(", think time %s", t.GetMean().AsDuration())
	}
	if most := l.GetMaxInFlight(); most > 0 {
		words += fmt.Sprintf(", at most %d in flight", most)
	}
	if s := l.GetStagger(); s != nil {
		words += ", stagger " + s.AsDuration().String()
	}
	if l.GetChoose() != nil {
		words += ", the best target"
	}
	return words + RepeatWords(l.GetRepeat())
}

// RepeatWords returns the words for the number of a repeat, from 1, which Words ends with. Empty: it is the first.
func RepeatWords(repeat uint32) string {
	if repeat == 0 {
		return ""
	}
	return fmt.Sprintf(", repeat %d", repeat+1)
}

func kindWords(l *spatev1.LoadPoint) string {
	switch search := l.GetSearch(); {
	case l.GetSweep() != nil:
		return fmt.Sprintf("sweep of %d rates", l.GetSweep().GetPoints())
	case search.GetRate() != nil:
		return "search " + boundsWords(search.GetRate()) + " req/s " + arrivalWords(l)
	case search != nil:
		return "search concurrency " + boundsWords(search.GetConcurrency())
	case l.GetFrontier().GetRate() != nil:
		return "frontier " + boundsWords(l.GetFrontier().GetRate()) + " req/s " + arrivalWords(l)
	case l.GetFrontier() != nil:
		return "frontier concurrency " + boundsWords(l.GetFrontier().GetConcurrency())
	case len(l.GetPhases()) > 0 && l.GetConcurrency() > 0:
		return "concurrency " + phaseWords(l.GetPhases())
	case len(l.GetPhases()) > 0:
		return phaseWords(l.GetPhases()) + " req/s " + arrivalWords(l)
	case l.GetReplaySpeed() == 1:
		return "replay"
	case l.GetReplaySpeed() > 0:
		return "replay x" + Number(l.GetReplaySpeed())
	case l.GetConcurrency() > 0:
		return fmt.Sprintf("concurrency %d", l.GetConcurrency())
	}
	return Number(l.GetRate()) + " req/s " + arrivalWords(l)
}

func arrivalWords(l *spatev1.LoadPoint) string {
	if l.GetBurstiness() > 0 {
		return fmt.Sprintf("%s %s", l.GetArrival(), Number(l.GetBurstiness()))
	}
	return l.GetArrival()
}

func boundsWords(b *spatev1.Bounds) string { return Number(b.GetFrom()) + " to " + Number(b.GetTo()) }

// phaseWords lists the values of phases, such as "1 to 64 to 1". A phase that holds its value is listed once. Of more
// than four phases it returns only the number and the largest value.
func phaseWords(phases []*spatev1.Phase) string {
	const most = 4
	if len(phases) > most {
		return fmt.Sprintf("%d phases up to %s", len(phases), Number(LargestPhase(phases)))
	}
	var values []string
	for _, p := range phases {
		for _, v := range []float64{p.GetFrom(), defaults.PhaseEnd(p)} {
			if text := Number(v); len(values) == 0 || values[len(values)-1] != text {
				values = append(values, text)
			}
		}
	}
	return strings.Join(values, " to ")
}

// Number formats a number without an exponent, 1000000 and not 1e+06, unless that takes more than 20 characters.
func Number(v float64) string {
	if text := strconv.FormatFloat(v, 'f', -1, 64); len(text) <= 20 {
		return text
	}
	return strings.Replace(strconv.FormatFloat(v, 'g', -1, 64), "e+", "e", 1)
}

// LatencyWords names a percentile of a latency for people: "p99 TTFT", "p99 TTFT from schedule". Percentile 0 is the
// mean.
func LatencyWords(metric string, percentile float64) string {
	words := strings.Replace(strings.ToUpper(metric), "_SCHEDULED", " from schedule", 1)
	if percentile == 0 {
		return "mean " + words
	}
	return "p" + Number(percentile) + " " + words
}

// Milliseconds formats a latency for people, rounded to hundredths of a millisecond.
func Milliseconds(d time.Duration) string {
	return Number(math.Round(float64(d)/float64(10*time.Microsecond))/100) + " ms"
}

// Key identifies a load point. Two points have the same key if and only if they ask for the same load with the same
// ends and warm-up. The key is stable across versions: a field that a later version adds is part of the key only if it
// is set. The split of a load over agents is not part of the key, because it does not change the requests or their
// times.
func Key(l *spatev1.LoadPoint) string {
	l = proto.CloneOf(l)
	l.Split = ""
	key := fmt.Sprintf("concurrency=%d rate=%s arrival=%s requests=%d duration=%d warmup_requests=%d warmup_duration=%d",
		l.GetConcurrency(), strconv.FormatFloat(l.GetRate(), 'g', -1, 64), l.GetArrival(), l.GetRequests(),
		l.GetDuration().AsDuration(), l.GetWarmupRequests(), l.GetWarmupDuration().AsDuration())
	return string(appendFields([]byte(key), l.ProtoReflect(), alwaysWritten))
}

// alwaysWritten is the number of the last field that Key writes even if it is not set: those of its first version.
const alwaysWritten = 7

// appendFields appends " name=value" for the set fields with numbers above the given one, ordered by number.
func appendFields(key []byte, m protoreflect.Message, above protoreflect.FieldNumber) []byte {
	fields := m.Descriptor().Fields() // By number: a test checks that our messages declare them in that order.
	for i := range fields.Len() {
		if f := fields.Get(i); f.Number() > above && m.Has(f) {
			key = append(key, " "+f.TextName()+"="...)
			key = appendField(key, f, m.Get(f))
		}
	}
	return key
}

func appendField(key []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	if !f.IsList() {
		return appendValue(key, f, v)
	}
	key = append(key, '[')
	for i := range v.List().Len() {
		key = append(appendValue(key, f, v.List().Get(i)), ';')
	}
	return append(key, ']')
}

func appendValue(key []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch f.Kind() {
	case protoreflect.MessageKind:
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
			return strconv.AppendInt(key, int64(d.AsDuration()), 10)
		}
		return append(appendFields(append(key, '{'), v.Message(), 0), '}')
	case protoreflect.DoubleKind:
		return strconv.AppendFloat(key, v.Float(), 'g', -1, 64)
	case protoreflect.StringKind:
		return strconv.AppendQuote(key, v.String())
	default:
		return append(key, v.String()...) // Whole numbers.
	}
}
