package recorder

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// judge checks snapshots as the coordinator does, for a stage with one agent.
type judge struct {
	run   *spatev1.RunRecord
	stage *spatev1.StageRecord
}

func newJudge(endpoints int) judge {
	return judge{
		run: &spatev1.RunRecord{RunId: "run", Records: "parquet"},
		stage: &spatev1.StageRecord{
			Stage:     &spatev1.Stage{Target: &spatev1.Target{Endpoints: make([]string, endpoints)}},
			StartTime: timestamppb.New(time.Unix(1, 0)),
			Agents:    []*spatev1.AssignedAgent{{Agent: &spatev1.AgentInfo{Name: "a"}, Incarnation: 1, Weight: 1}},
		},
	}
}

// refusal encodes and decodes snapshots, and returns why the coordinator refuses one of them, or nil.
func (j judge) refusal(snapshots []*spatev1.Snapshot) error {
	for i, s := range snapshots {
		s.Key = &spatev1.SnapshotKey{RunId: "run", Agent: "a", Incarnation: 1, Sequence: uint64(i + 1)}
		data, err := proto.Marshal(s)
		if err != nil {
			return err
		}
		var got spatev1.Snapshot
		if err := proto.Unmarshal(data, &got); err != nil {
			return err
		}
		checked, err := merge.Check(&got, j.run, j.stage)
		if err != nil {
			return err
		}
		merged := merge.NewStage(j.stage)
		if err := merged.AddChecked(checked); err != nil {
			return err
		}
	}
	return nil
}

// drawNumber draws numbers that a faulty server might report: small ones, some around limits, wrapped counters.
func drawNumber(t *rapid.T, name string) uint64 {
	return rapid.OneOf(
		rapid.Uint64Range(0, 300),
		rapid.SampledFrom([]uint64{
			measure.MaxTokens - 1, measure.MaxTokens, measure.MaxTokens + 1, 1<<32 + 5, 7e10,
			measure.MaxAnswer, measure.MaxAnswer + 1, measure.MaxWindowCount, 1e15, measure.MaxTotal / 8,
			measure.MaxTotal, math.MaxInt64, math.MaxUint64,
		}),
		rapid.Uint64(),
	).Draw(t, name)
}

func drawInstant(t *rapid.T, name string) clock.Instant {
	return at(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, name)))
}

// drawObservation draws an observation, whether or not a client could report it.
func drawObservation(t *rapid.T) *stream.Observation {
	o := &stream.Observation{
		Start: drawInstant(t, "start"), End: drawInstant(t, "end"), FirstToken: drawInstant(t, "first"),
		LastToken:   drawInstant(t, "last"),
		InputTokens: drawNumber(t, "input"), OutputTokens: drawNumber(t, "output"),
		Usage:        rapid.Bool().Draw(t, "usage"),
		CachedTokens: drawNumber(t, "cached"), HasCachedTokens: rapid.Bool().Draw(t, "has cached"),
		ReasoningTokens: drawNumber(t, "reasoning"), HasReasoningTokens: rapid.Bool().Draw(t, "has reasoning"),
		TextBytes: drawNumber(t, "bytes"), CoalescedReads: drawNumber(t, "coalesced"),
		UnstampedFrames: drawNumber(t, "unstamped"),
		HeadTokens:      rapid.OneOf(rapid.IntRange(-1, 5), rapid.Int()).Draw(t, "head"),
		WholeAnswer:     rapid.Bool().Draw(t, "whole"), Undecided: rapid.Bool().Draw(t, "undecided"),
		WrittenAtOnce: rapid.Bool().Draw(t, "one read"),
		HTTPStatus:    rapid.IntRange(-5, 2000).Draw(t, "status"), FinishReason: drawText(t, "finish"),
		Cancelled: rapid.IntRange(0, 9).Draw(t, "cancelled") == 0,
	}
	for range rapid.IntRange(0, 20).Draw(t, "frames") {
		f := stream.NewFrame(drawInstant(t, "frame"), rapid.Bool().Draw(t, "token"), rapid.Bool().Draw(t, "chunk"))
		o.Frames = append(o.Frames, f)
		if f.Token() {
			o.TokenFrames++
		}
	}
	if rapid.Bool().Draw(t, "fails") {
		o.Err = &stream.Error{
			Class:      spatev1.ErrorClass(rapid.IntRange(1, len(spatev1.ErrorClass_name)-1).Draw(t, "class")),
			HTTPStatus: rapid.IntRange(-5, 2000).Draw(t, "error status"), Message: drawText(t, "message"),
		}
	}
	return o
}

// drawText draws a text as a server might send it: of any length, and not always UTF-8.
func drawText(t *rapid.T, name string) string {
	return string(rapid.SliceOfN(rapid.Byte(), 0, 700).Draw(t, name))
}

// The coordinator accepts everything that is recorded: as it is, and merged by an agent whose coordinator was gone.
// Nothing is lost in between.
func TestCoordinatorAcceptsAllRecorded(t *testing.T) {
	const endpoints = 2
	j := newJudge(endpoints)
	rapid.Check(t, func(t *rapid.T) {
		tape := newTape(endpoints, 2, rapid.Bool().Draw(t, "rows"))
		n := rapid.IntRange(0, 6).Draw(t, "requests")
		for i := range n {
			q := &Request{
				Index: uint64(i), Endpoint: rapid.IntRange(0, endpoints-1).Draw(t, "endpoint"),
				Scheduled: drawInstant(t, "scheduled"),
				ISL:       rapid.Uint32().Draw(t, "isl"), OSL: rapid.Uint32().Draw(t, "osl"),
				Shared:     rapid.Uint32Range(0, 1<<24).Draw(t, "shared"),
				Unmeasured: rapid.Bool().Draw(t, "unmeasured"),
			}
			s := tape.Shard(i)
			s.RecordStart(q, q.Scheduled)
			s.RecordToken(q, drawInstant(t, "token"), rapid.OneOf(rapid.IntRange(-1, 9), rapid.Int()).Draw(t, "tokens"),
				rapid.Int64().Draw(t, "lag"))
			s.RecordEnd(q, drawObservation(t))
		}
		tape.Finish(&spatev1.Totals{})
		all := tape.snapshots
		started, ended := uint64(0), uint64(0)
		for _, s := range all {
			for _, e := range s.GetSeries() {
				c := e.GetCounters()
				started += c.GetStarted() + c.GetUnmeasuredStarted()
				ended += c.GetCompleted() + c.GetFailed() + c.GetCancelled() + c.GetUnmeasuredEnded()
			}
		}
		if started != uint64(n) || ended != uint64(n) {
			t.Fatalf("%d started and %d ended of %d requests", started, ended, n)
		}
		if err := j.refusal(all); err != nil {
			t.Fatal(err)
		}
		for len(all) > 1 {
			sum, fits := outbox.Merge(all[0], all[1])
			if !fits {
				t.Fatal("windows of a few requests do not merge")
			}
			all = append([]*spatev1.Snapshot{sum}, all[2:]...)
		}
		if err := j.refusal(all); err != nil {
			t.Fatalf("merged: %v", err)
		}
	})
}

// A server that reports the largest accepted number with each answer overflows no counter: requests fail before that.
func TestSumsStayWithinTheirBounds(t *testing.T) {
	tape := newTape(1, 1, false)
	s := tape.Shard(0)
	s.total.counts[measure.OutputTokens] = s.maxSum() - 5
	q := &Request{Scheduled: at(0), OSL: 1}
	for _, n := range []uint64{5, 1} {
		s.RecordStart(q, at(1))
		s.RecordEnd(
			q,
			&stream.Observation{Start: at(1), End: at(2), FirstToken: at(2), LastToken: at(2), OutputTokens: n,
				Usage: true},
		)
	}
	totals := &spatev1.Totals{}
	tape.Finish(totals)
	c := totals.GetCounters()
	if c.GetCompleted() != 1 || c.GetFailed() != 1 || c.GetOutputTokens() > measure.MaxTotal {
		t.Errorf("%v", c)
	}
	if e := tape.snapshots[0].GetSeries()[0].GetErrors(); len(e) != 1 ||
		e[0].GetClass() != spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE {
		t.Errorf("%v", e)
	}
}

// Nine hundred kinds of errors with long messages, from as many servers as a target may have in a test, fit into one
// snapshot.
func TestManyKindsOfErrorsFitIntoASnapshot(t *testing.T) {
	const endpoints = 64
	tape := newTape(endpoints, 1, false)
	s := tape.Shard(0)
	message := string(make([]byte, measure.MaxText))
	for e := range endpoints {
		for status := measure.MinStatus; status <= measure.MaxStatus; status++ {
			q := &Request{Endpoint: e, Scheduled: at(0)}
			s.RecordStart(q, at(1))
			s.RecordEnd(q, &stream.Observation{Start: at(1), End: at(2), Err: &stream.Error{
				Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, HTTPStatus: status, Message: message,
			}})
		}
	}
	tape.Finish(&spatev1.Totals{})
	if err := newJudge(endpoints).refusal(tape.snapshots); err != nil {
		t.Error(err)
	}
}
