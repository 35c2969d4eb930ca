package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// eventOf returns a notice with a number.
func eventOf(number uint64) *spatev1.FollowRunResponse {
	return &spatev1.FollowRunResponse{Number: number, Event: &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{
		Notice: &spatev1.Notice{Text: fmt.Sprint("notice ", number)},
	}}}
}

// numbers lists the events whose numbers are above after.
func numbers(t testing.TB, l *Ledger, after uint64) string {
	t.Helper()
	var out []uint64
	err := l.Events(after, func(e *spatev1.FollowRunResponse) error {
		if !proto.Equal(e, eventOf(e.GetNumber())) {
			t.Errorf("event %v", e)
		}
		out = append(out, e.GetNumber())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(out)
}

// An empty change is not written.
func TestAChangeOfNothingIsNotWritten(t *testing.T) {
	l, err := Create(filepath.Join(t.TempDir(), "ledger.db"), Change{Run: fixture.RunRecord(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	writes := func() int64 {
		stats := l.db.Stats()
		return stats.TxStats.GetWrite()
	}
	before := writes()
	for range 3 {
		if err := l.Put(Change{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := writes() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
	if err := l.Put(Change{Run: fixture.RunRecord(2)}); err != nil {
		t.Fatal(err)
	}
	if n := writes() - before; n == 0 {
		t.Error("a change is not counted: this test sees nothing")
	}
}

func TestLedgerKeepsWhatARestartNeeds(t *testing.T) {
	l, path := newLedger(t)
	if s, err := l.Submission(); s != nil || err != nil {
		t.Errorf("submission of a new ledger: %v, %v", s, err)
	}
	if c, err := l.Checkpoint(); c != nil || err != nil {
		t.Errorf("checkpoint of a new ledger: %v, %v", c, err)
	}
	submission := &spatev1.Submission{Name: "p", MinAgents: 3, References: []string{"env:KEY"}}
	checkpoint := &spatev1.Checkpoint{Phase: "applying", Begun: 1}
	run := fixture.RunRecord(9)
	for _, c := range []Change{
		{Submission: submission, Run: run},
		{Checkpoint: &spatev1.Checkpoint{Phase: "gathering"}, Events: []*spatev1.FollowRunResponse{eventOf(1),
			eventOf(300)}},
		{},
		{Checkpoint: checkpoint, Stages: []*spatev1.StageRecord{fixture.StageRecord(1, 2), fixture.StageRecord(0, 1)},
			Events: []*spatev1.FollowRunResponse{eventOf(1 << 32)}},
	} {
		if err := l.Put(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	gotRun, err1 := again.Run()
	gotSubmission, err2 := again.Submission()
	gotCheckpoint, err3 := again.Checkpoint()
	stages, err4 := again.Stages()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(gotRun, run) || !proto.Equal(gotSubmission, submission) ||
		!proto.Equal(gotCheckpoint, checkpoint) || len(stages) != 2 {
		t.Errorf("run %v, submission %v, checkpoint %v, %d stages", gotRun, gotSubmission, gotCheckpoint, len(stages))
	}
	for after, want := range map[uint64]string{0: "[1 300 4294967296]", 1: "[300 4294967296]", 299: "[300 4294967296]",
		1 << 40: "[]"} {
		if got := numbers(t, again, after); got != want {
			t.Errorf("events after %d: %s, want %s", after, got, want)
		}
	}
}

func TestAChangeThatCannotBeWrittenIsNotThereAtAll(t *testing.T) {
	l, _ := newLedger(t)
	broken := &spatev1.StageRecord{Failure: "\xff"} // invalid UTF-8: it cannot be encoded
	err := l.Put(Change{Checkpoint: &spatev1.Checkpoint{Phase: "running"},
		Stages: []*spatev1.StageRecord{fixture.StageRecord(0, 1), broken}})
	if err == nil {
		t.Fatal("it was written")
	}
	if c, err := l.Checkpoint(); c != nil || err != nil {
		t.Errorf("checkpoint %v, error %v", c, err)
	}
	if stages, err := l.Stages(); len(stages) != 0 || err != nil {
		t.Errorf("stages %v, error %v", stages, err)
	}
}

// Damage in a file's pages is an error, and never ends the process.
func TestDamagedLedgersAreErrors(t *testing.T) {
	l, path := newLedger(t)
	for n := range 40 {
		s := fixture.SnapshotOf(uint32(n%3), fixture.AgentName(n%5), 1, uint64(n+1))
		s.Records = []*spatev1.RequestRecord{{Error: string(make([]byte, 200*n))}}
		if _, err := l.Append([]*spatev1.Snapshot{s}); err != nil {
			t.Fatal(err)
		}
	}
	change := Change{Stages: []*spatev1.StageRecord{fixture.StageRecord(0, 5)},
		Events: []*spatev1.FollowRunResponse{eventOf(1)}}
	if err := errors.Join(l.Put(change), l.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		data := append([]byte(nil), whole...)
		page := rapid.IntRange(2, len(data)/4096-1).Draw(t, "page") // the two pages before have checksums
		for range rapid.IntRange(1, 40).Draw(t, "bytes") {
			data[page*4096+rapid.IntRange(0, 63).Draw(t, "at")] = rapid.Byte().Draw(t, "value")
		}
		path := filepath.Join(dir, "ledger.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		useAll(path)
	})
}

// useAll does with a ledger what a coordinator does, and ignores errors.
func useAll(path string) {
	l, err := Open(path)
	if err != nil {
		return
	}
	defer func() { _ = l.Close() }()
	_, _ = l.Run()
	_, _ = l.Stages()
	_, _ = l.Checkpoint()
	_ = l.Events(0, func(*spatev1.FollowRunResponse) error { return nil })
	for stage := range uint32(3) {
		_ = l.Rows(stage, func(*spatev1.Snapshot, [][]byte) error { return nil })
	}
	_, _ = l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(9, "z", 1, 1)})
	_ = l.Put(Change{Checkpoint: &spatev1.Checkpoint{Phase: "running"}})
}

// Discarding a stage removes everything of it and nothing of other stages, so it can be measured again with the same
// names.
func TestDiscardedStages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, path := newLedger(t)
		want := map[uint32][]string{0: {}, 1: {}, 2: {}, 1 << 24: {}}
		stages := []uint32{0, 1, 2, 1 << 24}
		for n := range rapid.IntRange(0, 40).Draw(rt, "snapshots") {
			s := fixture.SnapshotOf(rapid.SampledFrom(stages).Draw(rt, "stage"), fixture.AgentName(n%3), 1, uint64(n+1))
			if _, err := l.Append([]*spatev1.Snapshot{s}); err != nil {
				rt.Fatal(err)
			}
		}
		for _, stage := range stages {
			want[stage] = held(t, l, stage)
		}
		gone := rapid.SampledFrom(stages).Draw(rt, "discarded")
		change := Change{Stages: []*spatev1.StageRecord{fixture.StageRecord(0, 1), fixture.StageRecord(1, 1),
			fixture.StageRecord(2, 1), fixture.StageRecord(1<<24, 1)}}
		if err := errors.Join(l.Put(change), l.Put(Change{Discard: []uint32{gone}})); err != nil {
			rt.Fatal(err)
		}
		want[gone] = []string{}
		for _, stage := range stages {
			if got := held(t, l, stage); fmt.Sprint(got) != fmt.Sprint(want[stage]) {
				rt.Errorf("stage %d: %v, want %v", stage, got, want[stage])
			}
		}
		if records, err := l.Stages(); len(records) != len(stages)-1 || err != nil {
			rt.Errorf("%d records, %v", len(records), err)
		}
		if fresh, err := l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(gone, "a", 1, 1)}); err != nil || !fresh[0] {
			rt.Errorf("measured again: %v, %v", fresh, err)
		}
		if err := errors.Join(l.Close(), verify(path, true)); err != nil {
			rt.Error(err)
		}
	})
}
