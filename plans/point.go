package plans

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// LoadKey identifies a load point. Two points have the same key if and only if they ask for the same load with the same
// ends and warm-up. The key is stable across versions: a field that a later version adds is part of the key only if it
// is set. The split of a load over agents is not part of the key, because it does not change the requests or their
// times.
func LoadKey(l *spatev1.LoadPoint) string {
	l = proto.CloneOf(l)
	l.Split = ""
	key := fmt.Sprintf("concurrency=%d rate=%s arrival=%s requests=%d duration=%d warmup_requests=%d warmup_duration=%d",
		l.GetConcurrency(), strconv.FormatFloat(l.GetRate(), 'g', -1, 64), l.GetArrival(), l.GetRequests(),
		l.GetDuration().AsDuration(), l.GetWarmupRequests(), l.GetWarmupDuration().AsDuration())
	return string(appendFields([]byte(key), l.ProtoReflect(), alwaysWritten))
}

// alwaysWritten is the number of the last field that LoadKey writes even if it is not set: those of its first version.
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

// LoadWords describes a load point, without its ends: "concurrency 8", "2 req/s poisson", "replay x10". It adds the
// repeat, the think time and settings of the arrivals that are not the default, so that points of one plan that differ
// in more than their ends have different descriptions.
func LoadWords(l *spatev1.LoadPoint) string {
	words := kindWords(l)
	if t := l.GetThinkTime(); t != nil {
		words += fmt.Sprintf(", think time %s", t.GetMean().AsDuration())
	}
	if l.GetUnconditioned() {
		words += ", unconditioned"
	}
	if s := l.GetSplit(); s != "" && s != defaultSplit(l.GetArrival()) {
		words += ", split " + strings.ReplaceAll(s, "_", " ")
	}
	if s := l.GetStagger(); s != nil {
		words += ", stagger " + s.AsDuration().String()
	}
	if l.GetRepeat() > 0 {
		words += fmt.Sprintf(", repeat %d", l.GetRepeat())
	}
	return words
}

func kindWords(l *spatev1.LoadPoint) string {
	switch search := l.GetSearch(); {
	case l.GetSweep() != nil:
		return fmt.Sprintf("sweep of %d rates", l.GetSweep().GetPoints())
	case search.GetRate() != nil:
		return "search " + boundsWords(search.GetRate()) + " req/s " + arrivalWords(l)
	case search != nil:
		return "search concurrency " + boundsWords(search.GetConcurrency())
	case len(l.GetPhases()) > 0 && l.GetConcurrency() > 0:
		return "concurrency " + phaseWords(l.GetPhases())
	case len(l.GetPhases()) > 0:
		return phaseWords(l.GetPhases()) + " req/s " + arrivalWords(l)
	case l.GetReplaySpeed() == 1:
		return "replay"
	case l.GetReplaySpeed() > 0:
		return "replay x" + plainNumber(l.GetReplaySpeed())
	case l.GetConcurrency() > 0:
		return fmt.Sprintf("concurrency %d", l.GetConcurrency())
	}
	return plainNumber(l.GetRate()) + " req/s " + arrivalWords(l)
}

func arrivalWords(l *spatev1.LoadPoint) string {
	if l.GetBurstiness() > 0 {
		return fmt.Sprintf("%s %s", l.GetArrival(), plainNumber(l.GetBurstiness()))
	}
	return l.GetArrival()
}

func boundsWords(b *spatev1.Bounds) string {
	return plainNumber(b.GetFrom()) + " to " + plainNumber(b.GetTo())
}

// phaseWords lists the values of phases, such as "1 to 64 to 1". A phase that holds its value is listed once. Of more
// than four phases it returns only the number and the largest value.
func phaseWords(phases []*spatev1.Phase) string {
	const most = 4
	if len(phases) > most {
		return fmt.Sprintf("%d phases up to %s", len(phases), plainNumber(largestPhase(phases)))
	}
	var values []string
	for _, p := range phases {
		for _, v := range []float64{p.GetFrom(), phaseEnd(p)} {
			if text := plainNumber(v); len(values) == 0 || values[len(values)-1] != text {
				values = append(values, text)
			}
		}
	}
	return strings.Join(values, " to ")
}

// stageSeed returns a pure hash of what a stage's requests may depend on. The target and the stage's place are left out
// on purpose: two targets are sent the same requests. The text at the front separates it from other uses of the same
// hash.
func stageSeed(planSeed uint64, workload, loadKey string) uint64 {
	buffer := []byte("spate stage seed 1")
	buffer = binary.BigEndian.AppendUint64(buffer, planSeed)
	buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(workload)))
	buffer = append(buffer, workload...)
	return hashed(append(buffer, loadKey...))
}

// ProbeSeed returns the seed of a stage that a sweep or a search makes from its template: a pure hash of the template's
// seed, the stage's load and its number. The number of the series is left out on purpose, like the target in a stage's
// seed: two targets that are probed at the same loads are sent the same requests.
func ProbeSeed(template *spatev1.Stage, load *spatev1.LoadPoint, probe *spatev1.Probe) uint64 {
	buffer := []byte("spate probe seed 1")
	buffer = binary.BigEndian.AppendUint64(buffer, template.GetSeed())
	buffer = binary.BigEndian.AppendUint32(buffer, probe.GetNumber())
	return hashed(append(buffer, LoadKey(load)...))
}

func hashed(buffer []byte) uint64 {
	sum := sha256.Sum256(buffer)
	return binary.BigEndian.Uint64(sum[:])
}
