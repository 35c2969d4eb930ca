package fits

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator/config"
)

var (
	refitTarget = flag.String("refit", "", "fit this PLAN/TARGET")
	refitFree   = flag.String("free", "",
		"fields of its simulator to fit, each alone or with a value to start from: a,b=20ms")
	refitSet   = flag.String("set", "", "fields of its simulator to change before: a=20ms,b=true")
	refitTries = flag.Int("tries", 300, "sets of values to try")
)

// TestRefit searches for parameters of a simulated target that bring the target near the measured values:
//
//	go test ./simulator -run TestRefit -v -refit dynamo-vllm-h20/vllm-v1 -free prefill_tokens_per_second,decode_step,overhead
//
// It starts from the plan's values, changes some of the free ones by random factors, and keeps what lowers the
// distance. It searches for something good in few dimensions, not for the best, and finds the same each time.
func TestRefit(t *testing.T) {
	if *refitTarget == "" {
		t.Skip("no -refit")
	}
	f := findFit(t, *refitTarget)
	s := simulate(t, f.Plan)
	best := proto.CloneOf(s.targets[f.Target])
	for _, text := range strings.FieldsFunc(*refitSet, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(text, "=")
		setField(t, best, name, value)
	}
	var free []string
	for text := range strings.SplitSeq(*refitFree, ",") {
		name, value, given := strings.Cut(text, "=")
		free = append(free, name)
		if given {
			setField(t, best, name, value)
		}
	}
	least, score := f.distance(t, s, best)
	t.Logf("at first: distance %.3f, %s", least, score)
	random := rand.New(rand.NewPCG(1, 1))
	for try := range *refitTries {
		next := proto.CloneOf(best)
		step := 0.3 * math.Pow(0.1, float64(try)/float64(*refitTries)) // smaller and smaller
		for range 1 + random.IntN(len(free)) {
			scaleField(t, next, free[random.IntN(len(free))], math.Exp(random.NormFloat64()*step))
		}
		if d, text := f.distance(t, s, next); d < least {
			best, least, score = next, d, text
		}
	}
	t.Logf("in the end: distance %.3f, %s", least, score)
	for _, name := range free {
		t.Logf("  %s: %v", name, fieldValue(best, name))
	}
}

func findFit(t *testing.T, name string) *fit {
	for _, f := range readFits(t) {
		if f.Plan+"/"+f.Target == name {
			return &f
		}
	}
	t.Fatalf("there are no tables of %q", name)
	return nil
}

// distance returns how far a simulated target is from the measured values, infinite if the target is not valid, and the
// shares of the cells of each column within 30 % and 10 %. Each line costs little up to shortly before it, and not much
// more beyond: some cells cannot be met, and must not spoil the others. Tails weigh less, because they come from few
// requests.
func (f *fit) distance(t *testing.T, s *simulation, target *spatev1.SimulatedTarget) (float64, string) {
	c := config.FromPlan(target)
	if protovalidate.Validate(target) != nil {
		return math.Inf(1), ""
	}
	sum, score := 0.0, make([]tally, len(f.Columns))
	f.each(t, &c, s, func(_ *fitTable, row, got []float64) {
		for k, column := range f.Columns {
			weight := 1.0
			if strings.HasSuffix(column, "_p99") {
				weight = 0.6
			}
			off := math.Abs(got[k]/row[k+1] - 1)
			for _, line := range []float64{0.09, 0.27} { // somewhat inside of 10 % and 30 %
				sum += weight / (1 + math.Exp((line-off)/(0.1*line)))
			}
			sum += weight * 0.3 * min(1, off)
			score[k].add(off * 100)
		}
	})
	var text []string
	for k, column := range f.Columns {
		text = append(text, fmt.Sprintf("%s %v", column, &score[k]))
	}
	return sum, strings.Join(text, ", ")
}

func fieldOf(m *spatev1.SimulatedTarget, name string) protoreflect.FieldDescriptor {
	return m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
}

// setField sets a field to a value in the form of plans.
func setField(t *testing.T, m *spatev1.SimulatedTarget, name, value string) {
	f := fieldOf(m, name)
	if f == nil {
		t.Fatalf("a simulator has no field %q", name)
	}
	var v protoreflect.Value
	var err error
	switch f.Kind() {
	case protoreflect.BoolKind:
		v = protoreflect.ValueOfBool(value == "true")
	case protoreflect.Uint32Kind:
		var n uint64
		n, err = strconv.ParseUint(value, 10, 32)
		v = protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.DoubleKind:
		var x float64
		x, err = strconv.ParseFloat(value, 64)
		v = protoreflect.ValueOfFloat64(x)
	default:
		var d time.Duration
		d, err = time.ParseDuration(value)
		v = protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect())
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	m.ProtoReflect().Set(f, v)
}

// scaleField multiplies a floating-point field or a duration. Other fields stay unchanged.
func scaleField(t *testing.T, m *spatev1.SimulatedTarget, name string, factor float64) {
	switch v := fieldValue(m, name).(type) {
	case float64:
		m.ProtoReflect().Set(fieldOf(m, name), protoreflect.ValueOfFloat64(v*factor))
	case time.Duration:
		setField(t, m, name, time.Duration(float64(v)*factor).String())
	}
}

func fieldValue(m *spatev1.SimulatedTarget, name string) any {
	v := m.ProtoReflect().Get(fieldOf(m, name))
	if d, ok := v.Interface().(protoreflect.Message); ok {
		return d.Interface().(*durationpb.Duration).AsDuration()
	}
	return v.Interface()
}
