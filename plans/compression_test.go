package plans

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// uncompressed lists the fields with durations or fractional numbers that a simulation does not change, and why.
var uncompressed = map[string]string{
	"target.connect_timeout":                        "connecting is not simulated",
	"target.simulator.prefill_tokens_per_second":    "the simulator's speed scales it",
	"target.simulator.decode_step":                  "the simulator's speed scales it",
	"target.simulator.decode_step_per_request":      "the simulator's speed scales it",
	"target.simulator.transfer_per_thousand_tokens": "the simulator's speed scales it",
	"target.simulator.overhead":                     "the simulator's speed scales it",
	"target.simulator.error_share":                  "a share",
	"target.simulator.prefill_interference":         "a share",
	"target.simulator.transfer_interference":        "a share",
	"target.simulator.replica_spread":               "a share",
	"target.simulator.replica_skew":                 "a shape",
	"target.simulator.prefill_per_prompt":           "the simulator's speed scales it",
	"target.simulator.prefill_jitter":               "a shape",
	"target.simulator.step_jitter":                  "a shape",
	"target.simulator.stall_share":                  "a share",
	"target.simulator.stall":                        "the simulator's speed scales it",
	"target.simulator.output_mean":                  "a number of tokens",
	"target.simulator.output_stddev":                "a number of tokens",
	"target.simulator.textless_share":               "a share",
	"target.simulator.wrong_share":                  "a share",
	"canaries.share":                                "a share",
	"target.ready.within":                           "a simulator is ready at once",
	"target.cost_per_hour":                          "a price; reports relate it to the plan's time",
	"dataset.span":                                  "the replay's speed scales it",
	"part_datasets.span":                            "the parts of a mixture are not replayed",
	"load.burstiness":                               "a shape",
	"load.abort.error_share":                        "a share",
	"load.until.percentile":                         "a percentile",
	"load.until.within":                             "a share",
	"load.until.confidence":                         "a share",
	"load.search.concurrency.from":                  "a concurrency",
	"load.search.concurrency.to":                    "a concurrency",
	"load.search.precision":                         "a share",
	"load.frontier.concurrency.from":                "a concurrency",
	"load.frontier.concurrency.to":                  "a concurrency",
	"load.frontier.tolerance":                       "a share",
	"load.frontier.percentile":                      "a percentile",
	"load.frontier.keep.error_share":                "a share",
	"load.frontier.keep.goodput":                    "a share",
	"load.frontier.keep.latencies.percentile":       "a percentile",
	"load.choose.within.error_share":                "a share",
	"load.choose.within.goodput":                    "a share",
	"load.choose.within.latencies.percentile":       "a percentile",
	"load.choose.tolerance":                         "a share",
	"load.choose.percentile":                        "a percentile",
	"load.search.keep.error_share":                  "a share",
	"load.search.keep.goodput":                      "a share",
	"load.search.keep.latencies.percentile":         "a percentile",
}

// tokenFields are parts of workloads in which all numbers are token counts or shares.
var tokenFields = []string{"isl_lengths", "osl_lengths", "turn_counts", "range_ratio", "share", "max_skipped"}

// TestNothingIsForgotten fills every field of a stage, for each kind of content and load. It expects each
// duration divided and each rate multiplied, except for the fields in uncompressed.
func TestNothingIsForgotten(t *testing.T) {
	used, seen := make(map[string]bool), 0
	for choice := range 8 {
		stage := &spatev1.Stage{}
		fill(stage.ProtoReflect(), choice, 0)
		stage.Load.Concurrency = 0 // An open loop: its phases are rates.
		before := proto.CloneOf(stage)
		compressAll(10, stage)
		walk("", before.ProtoReflect(), stage.ProtoReflect(), func(path string, before, after any) {
			seen++
			listed := uncompressed[path] != ""
			used[path] = used[path] || listed
			listed = listed || slices.ContainsFunc(tokenFields, func(field string) bool {
				return strings.HasPrefix(path, "workload.") && strings.Contains(path+".", "."+field+".")
			})
			want := before
			switch v := before.(type) {
			case time.Duration:
				if !listed {
					want = v / 10
				}
			case float64:
				switch {
				case strings.HasSuffix(path, ".delay_scale"): // a factor of durations
					want = v / 10
				case !listed:
					want = v * 10
				}
			}
			if want != after {
				t.Errorf("%s: %v became %v, want %v: compression must treat it, or the test's list say why not", path,
					before, after, want)
			}
		})
	}
	for path := range uncompressed {
		if !used[path] {
			t.Errorf("%s is listed, but no field of a stage", path)
		}
	}
	if seen < 50 {
		t.Errorf("only %d fields were seen", seen)
	}
}

// The think times of a mixture's parts are compressed like those of other workloads.
func TestPartsAreCompressed(t *testing.T) {
	w := &spatev1.Workload{Content: &spatev1.Workload_Mix{Mix: &spatev1.Mixture{Parts: []*spatev1.Part{{
		Weight: 1, Slo: &spatev1.SLO{Ttft: durationpb.New(10 * time.Second)},
		Workload: &spatev1.Workload{Content: &spatev1.Workload_Sessions{Sessions: &spatev1.SessionContent{
			Play: &spatev1.SessionPlay{ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(time.Second)}}}}},
	}}}}}
	factor(10).workload(w)
	part := w.GetMix().GetParts()[0]
	if limit := part.GetSlo().GetTtft().AsDuration(); limit != time.Second {
		t.Errorf("an SLO of 10 s became %v", limit)
	}
	got := part.GetWorkload().GetSessions().GetPlay().GetThinkTime().GetMean().AsDuration()
	if got != 100*time.Millisecond || part.GetWeight() != 1 {
		t.Errorf("think time %v, weight %v", got, part.GetWeight())
	}
}

// compressAll does to one stage what the expansion does to the parts of all stages.
func compressAll(k factor, s *spatev1.Stage) {
	k.target(s.GetTarget())
	k.workload(s.GetWorkload())
	k.load(s.GetLoad())
	k.shorten(&spatev1.Stage{DrainTimeout: s.GetDrainTimeout(), Pause: s.GetPause(), Slo: s.GetSlo()})
}

// fill sets every field of a message: durations to 1000 s, numbers to 1000; of each oneof, the choice-th field.
func fill(m protoreflect.Message, choice, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() && o.Fields().Get(choice%o.Fields().Len()) != f {
			continue
		}
		switch {
		case f.IsMap() || f.Message() != nil && f.Message().FullName() == "google.protobuf.Struct":
		case f.IsList() && f.Message() != nil:
			fill(m.Mutable(f).List().AppendMutable().Message(), choice, depth+1)
		case f.IsList():
		case f.Message() != nil && f.Message().FullName() == "google.protobuf.Duration":
			m.Set(f, protoreflect.ValueOfMessage(durationpb.New(1000*time.Second).ProtoReflect()))
		case f.Message() != nil && depth < 10:
			fill(m.Mutable(f).Message(), choice, depth+1)
		case f.Kind() == protoreflect.DoubleKind:
			m.Set(f, protoreflect.ValueOfFloat64(1000))
		}
	}
}

// walk visits the durations and numbers of two messages of the same shape.
func walk(path string, a, b protoreflect.Message, visit func(path string, a, b any)) {
	a.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := strings.TrimPrefix(path+"."+f.TextName(), ".")
		switch w := b.Get(f); {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				walk(at, v.List().Get(i).Message(), w.List().Get(i).Message(), visit)
			}
		case f.Message() != nil:
			if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
				visit(at, d.AsDuration(), w.Message().Interface().(*durationpb.Duration).AsDuration())
			} else {
				walk(at, v.Message(), w.Message(), visit)
			}
		case f.Kind() == protoreflect.DoubleKind:
			visit(at, v.Float(), w.Float())
		}
		return true
	})
}

func TestSomeTimeIsKept(t *testing.T) {
	d := durationpb.New(time.Nanosecond)
	if factor(1000).shorten(d); d.AsDuration() != time.Nanosecond {
		t.Errorf("a limit of 1 ns became %v, which limits nothing", d.AsDuration())
	}
	factor(1000).shorten((*durationpb.Duration)(nil))
}
