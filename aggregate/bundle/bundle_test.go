package bundle

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// drawn draws the measurements of a few cells, with counters and some values.
func drawn(t *rapid.T, cells int) (all []*spatev1.Series) {
	for e := range cells {
		if !rapid.Bool().Draw(t, "there") {
			continue
		}
		n := rapid.Uint64Range(1, 9).Draw(t, "n")
		s := &spatev1.Series{
			Endpoint: uint32(e), Counters: &spatev1.Counters{Started: n, Failed: n},
			Errors: []*spatev1.ErrorCount{{Class: spatev1.ErrorClass_ERROR_CLASS_TIMEOUT, Count: n}},
		}
		for _, m := range []spatev1.Metric{spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_OSL} {
			h := histogram.New(histogram.LayoutOf(m))
			for _, v := range rapid.SliceOfN(rapid.Int64Range(1, 1e10), 0, 5).Draw(t, "values") {
				h.Record(v)
			}
			if h.Count() > 0 {
				s.Distributions = append(s.Distributions, h.Proto(m))
			}
		}
		all = append(all, s)
	}
	return all
}

// sharesOf spreads the counts of a snapshot over windows 5 and 7.
func sharesOf(t *rapid.T, s *spatev1.Snapshot) []*spatev1.WindowShare {
	for _, series := range s.GetSeries() {
		series.Counters.OutputTokens = rapid.Uint64Range(0, 99).Draw(t, "tokens")
		series.Counters.Completed = rapid.Uint64Range(0, 3).Draw(t, "completed")
	}
	of := Shared(s)
	first := rapid.Uint64Range(0, of.Tokens).Draw(t, "before")
	return []*spatev1.WindowShare{
		{Window: 5, OutputTokens: first},
		{Window: 7, OutputTokens: of.Tokens - first, MicroRequests: of.MicroRequests},
	}
}

// added adds up values by cell and metric, one snapshot at a time.
func added(all [][]*spatev1.Series) map[[2]uint32]*histogram.Histogram {
	sums := map[[2]uint32]*histogram.Histogram{}
	for _, series := range all {
		for _, s := range series {
			for _, d := range s.GetDistributions() {
				at := [2]uint32{s.GetEndpoint(), uint32(d.GetMetric())}
				if sums[at] == nil {
					sums[at] = histogram.New(histogram.LayoutOf(d.GetMetric()))
				}
				_ = sums[at].AddProto(d) // made above
			}
		}
	}
	return sums
}

// A bundle has the values of all its snapshots, each once, and these keep all else.
func TestABundleLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*spatev1.Snapshot
		var series, turns [][]*spatev1.Series
		var shares Shares
		for i := range rapid.IntRange(1, 4).Draw(t, "snapshots") {
			s := &spatev1.Snapshot{
				Key: &spatev1.SnapshotKey{RunId: "r", Agent: "a", Sequence: uint64(i)}, StageIndex: 1, Window: 7,
				PeakInFlight: 3, Series: drawn(t, 3), Turns: drawn(t, 2), Left: true, StartedItems: []uint64{4},
			}
			s.Shares = sharesOf(t, s)
			shares = shares.Plus(SharesOf(s))
			all, series, turns = append(all, s), append(series, s.Series), append(turns, s.Turns)
		}
		sum, members, misfits := Of(all, &spatev1.Merged{Region: "eu"})
		if len(misfits) > 0 || sum.GetKey().GetRunId() != "r" || sum.GetStageIndex() != 1 || sum.GetWindow() != 7 {
			t.Fatalf("%v do not fit into %v", misfits, sum)
		}
		for _, of := range []struct {
			got  []*spatev1.Series
			want [][]*spatev1.Series
		}{{sum.GetSeries(), series}, {sum.GetTurns(), turns}} {
			got, want := added([][]*spatev1.Series{of.got}), added(of.want)
			if len(got) != len(want) {
				t.Fatalf("%d sums, want %d", len(got), len(want))
			}
			for at, h := range want {
				m := spatev1.Metric(at[1])
				if !proto.Equal(got[at].Proto(m), h.Proto(m)) {
					t.Fatalf("the values of %v differ", at)
				}
			}
		}
		sumOfTurns, counted := uint64(0), uint64(0)
		for i, s := range all {
			for _, x := range s.GetTurns() {
				sumOfTurns += x.GetCounters().GetFailed()
			}
			want := proto.CloneOf(s)
			want.Turns, want.Shares, want.TakenOut = nil, nil, members[i].GetTakenOut()
			for _, x := range want.GetSeries() {
				x.Distributions = nil
			}
			if !proto.Equal(members[i], want) {
				t.Fatalf("%v became %v", s, members[i])
			}
			for _, n := range members[i].GetTakenOut() {
				counted += n
			}
		}
		for _, x := range sum.GetTurns() {
			sumOfTurns -= x.GetCounters().GetFailed()
			if x.GetErrors()[0].GetCount() != x.GetCounters().GetFailed() {
				t.Fatalf("errors of turns: %v", x)
			}
		}
		for _, h := range added(series) {
			counted -= h.Count()
		}
		if SharesOf(sum) != shares {
			t.Fatalf("shares of %+v, want %+v", SharesOf(sum), shares)
		}
		if sumOfTurns != 0 || counted != 0 {
			t.Fatalf("%d failures of turns and %d values are too many", int64(sumOfTurns), int64(counted))
		}
	})
}

// A snapshot that cannot be in a bundle is left out, and adds nothing to it.
func TestMisfitsAreLeftOut(t *testing.T) {
	good := fixture.GoodSnapshot()
	good.Turns = []*spatev1.Series{{Counters: &spatev1.Counters{Started: 1}}}
	want, _, _ := Of([]*spatev1.Snapshot{good}, nil)
	many := histogram.New(histogram.Times)
	many.RecordN(1e6, measure.MaxValues)
	most := histogram.New(histogram.Times)
	most.RecordN(1e6, measure.MaxValues+1)
	turn := func(s *spatev1.Snapshot, counters *spatev1.Counters, errors ...*spatev1.ErrorCount) {
		s.Turns = []*spatev1.Series{{Counters: counters, Errors: errors}}
	}
	for name, damage := range map[string]func(*spatev1.Snapshot){
		"garbage":          func(s *spatev1.Snapshot) { s.Series[1].Distributions[0].Histogram = []byte("x") },
		"unknown metric":   func(s *spatev1.Snapshot) { s.Series[1].Distributions[0].Metric = 999 },
		"twice":            func(s *spatev1.Snapshot) { s.Series[1].Distributions[1] = s.Series[1].Distributions[0] },
		"too many values":  func(s *spatev1.Snapshot) { s.Series[0].Distributions[0] = many.Proto(spatev1.Metric_METRIC_TTFT) },
		"a share too many": func(s *spatev1.Snapshot) { s.Shares[0].Chunks++ },
		"garbage in a turn": func(s *spatev1.Snapshot) {
			s.Turns = []*spatev1.Series{{Distributions: []*spatev1.Distribution{{Metric: 1}}}}
		},
		"too many in a turn": func(s *spatev1.Snapshot) {
			turn(s, &spatev1.Counters{Started: measure.MaxWindowCount + 1})
		},
		"a counter that would overflow": func(s *spatev1.Snapshot) { turn(s, &spatev1.Counters{Started: math.MaxUint64}) },
		"errors that are not the failed requests": func(s *spatev1.Snapshot) {
			turn(s, &spatev1.Counters{Failed: 1}, &spatev1.ErrorCount{Count: 2})
		},
		"too many kinds of errors": func(s *spatev1.Snapshot) {
			turn(s, nil, make([]*spatev1.ErrorCount, maxErrors+1)...)
		},
		"a cell twice": func(s *spatev1.Snapshot) {
			s.Turns = []*spatev1.Series{
				{Endpoint: 9, Distributions: []*spatev1.Distribution{many.Proto(spatev1.Metric_METRIC_TTFT)}},
				{Endpoint: 9, Distributions: []*spatev1.Distribution{many.Proto(spatev1.Metric_METRIC_TTFT)}},
			}
		},
		"too many values for any bundle": func(s *spatev1.Snapshot) {
			s.Turns = []*spatev1.Series{
				{Endpoint: 9, Distributions: []*spatev1.Distribution{most.Proto(spatev1.Metric_METRIC_TTFT)}},
			}
		},
		"a bundle's part":            func(s *spatev1.Snapshot) { s.TakenOut = []uint64{0} },
		"a field of a later version": func(s *spatev1.Snapshot) { s.Series[0].ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 1}) },
		"too many cells":             func(s *spatev1.Snapshot) { s.Turns = make([]*spatev1.Series, maxCells+1) },
	} {
		bad := proto.CloneOf(good)
		damage(bad)
		got, members, misfits := Of([]*spatev1.Snapshot{good, bad}, nil)
		if len(misfits) != 1 || misfits[0] != 1 || len(members) != 1 || !proto.Equal(got, want) {
			t.Errorf("%s: %v do not fit, and the sum is %v", name, misfits, got)
		}
	}
}

// Each field of a snapshot is kept or is among the values: a new one must not be lost.
func TestStripKnowsEachField(t *testing.T) {
	fields := (&spatev1.Snapshot{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field, s := fields.Get(i), (&spatev1.Snapshot{}).ProtoReflect()
		switch name := field.Name(); {
		case name == "turns" || name == "shares" || name == "merged" || name == "taken_out":
			continue
		case field.IsList() && field.Message() != nil:
			l := s.Mutable(field).List()
			l.Append(l.NewElement())
		case field.IsList():
			s.Mutable(field).List().Append(protoreflect.ValueOfUint64(1))
		case field.Message() != nil:
			s.Mutable(field)
		case field.Kind() == protoreflect.BoolKind:
			s.Set(field, protoreflect.ValueOfBool(true))
		case field.Kind() == protoreflect.Uint32Kind:
			s.Set(field, protoreflect.ValueOfUint32(1))
		case field.Kind() == protoreflect.Int64Kind:
			s.Set(field, protoreflect.ValueOfInt64(1))
		default:
			s.Set(field, protoreflect.ValueOfUint64(1))
		}
		stripped, err := Strip(s.Interface().(*spatev1.Snapshot))
		if err != nil || !stripped.ProtoReflect().Has(field) {
			t.Errorf("%s is lost, %v", field.Name(), err)
		}
	}
}
