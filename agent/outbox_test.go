package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Whatever is sent, acked, lost and sent again: each connection gets the unacked snapshots in order, and nothing is dropped.
func TestOutboxAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOutbox("a", 1, 1<<30)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		var unacked []uint64
		var added, sent uint64
		ref := &spatev1.AssignmentRef{RunId: "run", StageIndex: 3, Revision: 2}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) {
				o.add(ref, &spatev1.Snapshot{})
				added++
				unacked = append(unacked, added)
			},
			"send": func(t *rapid.T) {
				s, err := o.next(ended)
				if int(sent) == len(unacked) {
					if !errors.Is(err, context.Canceled) {
						t.Fatalf("got %v, nothing is to send", s)
					}
					return
				}
				if err != nil || s.GetKey().GetSequence() != unacked[sent] || s.GetStageIndex() != 3 || s.GetRevision() != 2 {
					t.Fatalf("got %v, %v; %d is next", s, err, unacked[sent])
				}
				sent++
			},
			"answer": func(t *rapid.T) {
				i := rapid.Uint64Range(0, added+1).Draw(t, "sequence")
				got := o.answered(&spatev1.SnapshotKey{RunId: "run", Agent: "a", Incarnation: 1, Sequence: i})
				at := indexOf(unacked[:sent], i)
				if (got != nil) != (at >= 0) {
					t.Fatalf("answer to %d took %v", i, got)
				}
				if at >= 0 {
					unacked = append(unacked[:at:at], unacked[at+1:]...)
					sent--
				}
			},
			"reconnect": func(*rapid.T) { o.rewind(); sent = 0 },
			"": func(t *rapid.T) {
				if o.waiting() != len(unacked) || o.flushed(ended) != (len(unacked) == 0) || (o.bytes == 0) != (len(unacked) == 0) {
					t.Fatalf("%d wait, %d bytes; %d should", o.waiting(), o.bytes, len(unacked))
				}
			},
		})
	})
}

func indexOf(all []uint64, n uint64) int {
	for i, v := range all {
		if v == n {
			return i
		}
	}
	return -1
}

func TestSequencesCountByRun(t *testing.T) {
	o := newOutbox("a", 9, 1<<20)
	for i, run := range []string{"x", "x", "y", "x"} {
		s := &spatev1.Snapshot{}
		o.add(&spatev1.AssignmentRef{RunId: run}, s)
		want := []uint64{1, 2, 1, 3}[i]
		if k := s.GetKey(); k.GetSequence() != want || k.GetRunId() != run || k.GetAgent() != "a" || k.GetIncarnation() != 9 {
			t.Errorf("snapshot %d: key %v", i, k)
		}
	}
}

func TestOutboxBeyondItsLimitEndsTheStageAndKeepsAll(t *testing.T) {
	d := &desk{kit: kitOf(limits{}), outbox: newOutbox("a", 1, 100), logger: slog.New(slog.DiscardHandler)}
	answers := make(answers, 1)
	e := newEngine(t, time.Millisecond, 0)
	a := assignOf(stageOf(&spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(time.Hour)}, e), 0)
	d.assign(a, answers)
	if got := <-answers; got != "applied" {
		t.Fatal(got)
	}
	if err := d.arm(a.GetRef(), clock.Now(), 0); err != nil {
		t.Fatal(err)
	}
	d.work.Wait()
	var totals *spatev1.Totals
	for _, p := range d.outbox.unacked {
		totals = p.snapshot.GetTotals()
	}
	if !strings.Contains(totals.GetFailure(), "takes no measurements: more than 100 bytes") || totals.GetSnapshots() != uint64(d.outbox.waiting()) {
		t.Errorf("%d snapshots, totals %v", d.outbox.waiting(), totals)
	}
}

// answers takes a session's place.
type answers chan string

func (a answers) applied(*spatev1.AssignmentRef, *spatev1.Preparation) { a <- "applied" }
func (a answers) rejected(_ *spatev1.AssignmentRef, _ spatev1.FailureKind, reason string) {
	a <- reason
}
