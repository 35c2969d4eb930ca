package loadpoint

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
