package outbox

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ledger holds an outbox's snapshots as a coordinator keeps them: each once.
type ledger map[uint64]*spatev1.Snapshot

// take adds a snapshot, and checks that a repeated one is equal.
func (l ledger) take(t *rapid.T, s *spatev1.Snapshot) {
	if before := l[s.GetKey().GetSequence()]; before != nil && !proto.Equal(before, s) {
		t.Fatalf("snapshot %d is not what it was", s.GetKey().GetSequence())
	}
	l[s.GetKey().GetSequence()] = proto.CloneOf(s)
}

// sums are the sums over some snapshots.
type sums struct{ started, rows, windows uint64 }

// sum adds up a stage's snapshots in the order of their numbers. It checks that there are no gaps in numbers or in
// time.
func (l ledger) sum(t *rapid.T, stage uint32) (total sums) {
	next, last := uint32(0), uint64(0)
	var count uint64
	for sequence := range uint64(len(l)) {
		s := l[sequence+1]
		if s == nil {
			t.Fatalf("no snapshot %d of %d", sequence+1, len(l))
		}
		if s.GetStageIndex() != stage {
			continue
		}
		if last != 0 && sequence+1 != last+1 {
			t.Fatalf("snapshot %d of stage %d follows %d", sequence+1, stage, last)
		}
		count, last = count+1, sequence+1
		for _, series := range s.GetSeries() {
			total.started += series.GetCounters().GetStarted()
		}
		total.rows += uint64(len(s.GetRecords())) + s.GetDroppedRecords()
		first := s.GetWindow()
		if s.FirstWindow != nil {
			first = s.GetFirstWindow()
		}
		if first != next {
			t.Fatalf("snapshot %d begins with window %d, not %d", sequence+1, first, next)
		}
		next = s.GetWindow() + 1
		if totals := s.GetTotals(); totals != nil && totals.GetSnapshots() != count {
			t.Fatalf("totals report %d snapshots of %d", totals.GetSnapshots(), count)
		}
	}
	total.windows = uint64(next)
	return total
}

// measured returns the snapshot of a window in which that many requests started, with some rows.
func measured(window uint32, started, rows uint64) *spatev1.Snapshot {
	s := &spatev1.Snapshot{Window: window, StartedItems: []uint64{uint64(window)}}
	if started > 0 {
		s.Series = []*spatev1.Series{{Endpoint: uint32(started % 3), Counters: &spatev1.Counters{Started: started}}}
	}
	for i := range rows {
		s.Records = append(s.Records, &spatev1.RequestRecord{Index: i, FinishReason: "a text of some length"})
	}
	return s
}

// Whatever is added, sent, acked, lost, resent and merged, and however little the outbox holds, delivered snapshots add
// up to what was added, each once, without a gap in numbers or in time.
func TestOutboxDeliversEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{0, 100, 1000, 1 << 30}).Draw(t, "limit")
		o := New("a", 1, limit)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		added := map[uint32]*sums{}
		ref := &spatev1.AssignmentRef{RunId: "run", Revision: 1}
		of := func(stage uint32) *sums {
			if added[stage] == nil {
				added[stage] = &sums{}
			}
			return added[stage]
		}
		coordinator := ledger{}
		var unacked []*spatev1.SnapshotKey // over the current connection
		add := func(t *rapid.T, totals bool) {
			total := of(ref.GetStageIndex())
			s := measured(uint32(total.windows), rapid.Uint64Range(0, 9).Draw(t, "started"),
				rapid.Uint64Range(0, 5).Draw(t, "rows"))
			for _, series := range s.GetSeries() {
				total.started += series.GetCounters().GetStarted()
			}
			total.rows += uint64(len(s.GetRecords()))
			total.windows++
			if totals {
				s.Totals = &spatev1.Totals{Snapshots: total.windows}
			}
			o.Add(ref, s)
		}
		send := func(t *rapid.T) {
			s, err := o.Next(ended)
			if errors.Is(err, context.Canceled) {
				return
			}
			coordinator.take(t, s)
			unacked = append(unacked, s.GetKey())
		}
		ack := func(i int) {
			o.Answered(unacked[i])
			unacked = slices.Delete(unacked, 0, i+1)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":  func(t *rapid.T) { add(t, false) },
			"adds": func(t *rapid.T) { add(t, false); add(t, false) },
			"next stage": func(t *rapid.T) {
				add(t, true)
				ref = &spatev1.AssignmentRef{RunId: "run", StageIndex: ref.GetStageIndex() + 1, Revision: 1}
			},
			"send": send,
			"ack": func(t *rapid.T) {
				if len(unacked) > 0 {
					ack(rapid.IntRange(0, len(unacked)-1).Draw(t, "which"))
				}
			},
			"strange ack": func(t *rapid.T) {
				if o.Answered(&spatev1.SnapshotKey{RunId: "run", Agent: "a", Incarnation: 1,
					Sequence: 1 << 40}) != nil {
					t.Fatal("an answer to nothing took something")
				}
			},
			"reconnect": func(*rapid.T) { o.Rewind(); unacked = nil },
			"": func(t *rapid.T) {
				if len(o.sent) > maxSent {
					t.Fatalf("%d sent and not acked", len(o.sent))
				}
				if o.bytes > o.limit && len(o.fresh) > 2+int(ref.GetStageIndex()) {
					t.Fatalf("%d bytes in %d snapshots never sent, beyond %d", o.bytes, len(o.fresh), o.limit)
				}
			},
		})
		o.Rewind()
		unacked = nil
		for o.Waiting() > 0 {
			send(t)
			ack(0)
		}
		if !o.AwaitEmpty(ended) || o.Size() != 0 {
			t.Fatalf("%d bytes left in an empty outbox", o.Size())
		}
		for stage, want := range added {
			if got := coordinator.sum(t, stage); got != *want {
				t.Fatalf("stage %d: delivered %+v, added %+v", stage, got, *want)
			}
		}
	})
}

func TestSequencesCountByRun(t *testing.T) {
	o := New("a", 9, 1<<20)
	for i, run := range []string{"x", "x", "y", "x"} {
		o.Add(&spatev1.AssignmentRef{RunId: run}, &spatev1.Snapshot{})
		s, err := o.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []uint64{1, 2, 1, 3}[i]
		if k := s.GetKey(); k.GetSequence() != want || k.GetRunId() != run || k.GetAgent() != "a" ||
			k.GetIncarnation() != 9 {
			t.Errorf("snapshot %d: key %v", i, k)
		}
	}
}

// A stage is held from its first snapshot on until the last is acked, whether they were sent or not.
func TestHolds(t *testing.T) {
	o := New("a", 9, 1<<20)
	held := &spatev1.AssignmentRef{RunId: "x", StageIndex: 1}
	others := []*spatev1.AssignmentRef{{RunId: "x", StageIndex: 2}, {RunId: "y", StageIndex: 1}}
	check := func(when string, want bool) {
		t.Helper()
		if got := o.Holds(held); got != want {
			t.Errorf("%s: held %t, want %t", when, got, want)
		}
	}
	for _, ref := range others {
		o.Add(ref, &spatev1.Snapshot{StageIndex: ref.GetStageIndex()})
	}
	check("other stages", false)
	o.Add(held, &spatev1.Snapshot{StageIndex: held.GetStageIndex()})
	check("added", true)
	for range 3 {
		s, err := o.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check("sent", true)
		o.Answered(s.GetKey())
	}
	check("acked", false)
}

// Rows are dropped, the oldest first, only when nothing can be merged.
func TestRowsAreDroppedLast(t *testing.T) {
	ref := &spatev1.AssignmentRef{RunId: "run"}
	bare := New("a", 1, 400)
	for w := range uint32(100) {
		if p := bare.Add(ref, measured(w, 3, 0)); p.Rows != 0 {
			t.Fatalf("rows dropped of a snapshot without: %+v", p)
		}
	}
	if bare.Size() > 400 || len(bare.fresh) < 3 {
		t.Errorf("%d bytes in %d snapshots", bare.Size(), len(bare.fresh))
	}
	full := New("a", 1, 1000)
	for w := range uint32(100) {
		full.Add(ref, measured(w, 3, 4))
	}
	last := full.fresh[len(full.fresh)-1].snapshot
	if full.Size() > 1000 || len(last.GetRecords()) == 0 || full.fresh[0].snapshot.GetDroppedRecords() == 0 {
		t.Errorf("%d bytes in %d snapshots, the last with %d rows", full.Size(), len(full.fresh),
			len(last.GetRecords()))
	}
	if _, rows := full.Losses(); rows == 0 || rows >= 400 {
		t.Errorf("%d rows dropped", rows)
	}
}

// A snapshot that was sent is never merged, however much waits behind it.
func TestSentSnapshotsStayAsTheyAre(t *testing.T) {
	ref := &spatev1.AssignmentRef{RunId: "run"}
	o := New("a", 1, 1<<20)
	for w := range uint32(maxSent) {
		o.Add(ref, measured(w, 1, 1))
		if s, err := o.Next(t.Context()); err != nil || s.GetWindow() != w {
			t.Fatalf("window %d: got %v, %v", w, s, err)
		}
	}
	o.limit = 0
	for w := uint32(maxSent); w < 30; w++ {
		o.Add(ref, measured(w, 1, 1))
	}
	for w, p := range o.sent {
		if s := p.snapshot; s.FirstWindow != nil || s.GetWindow() != uint32(w) || len(s.GetRecords()) != 1 {
			t.Errorf("sent as window %d, now %v", w, s)
		}
	}
	if len(o.sent) != maxSent || len(o.fresh) != 1 {
		t.Fatalf("%d sent, %d not", len(o.sent), len(o.fresh))
	}
	o.Answered(o.sent[3].snapshot.GetKey())
	s, err := o.Next(t.Context())
	if err != nil || s.GetFirstWindow() != maxSent || s.GetWindow() != 29 || s.GetKey().GetSequence() != maxSent+1 ||
		s.GetDroppedRecords() != 14 {
		t.Errorf("got %v, %v", s, err)
	}
}

// A snapshot beyond the limit of one message is sent in pieces.
func TestLargeSnapshotGoesInPieces(t *testing.T) {
	o := New("a", 1, 1<<30)
	s := measured(0, 1, 0)
	for range 5 {
		s.Records = append(s.Records, &spatev1.RequestRecord{Error: string(make([]byte, 5<<20))})
	}
	s.Totals = &spatev1.Totals{Snapshots: 1}
	o.Add(&spatev1.AssignmentRef{RunId: "run"}, s)
	if len(o.fresh) != 2 {
		t.Fatalf("%d pieces", len(o.fresh))
	}
	for i := range uint64(2) {
		piece, err := o.Next(t.Context())
		if err != nil || proto.Size(piece) > 16<<20 {
			t.Fatalf("piece of %d bytes, %v", proto.Size(piece), err)
		}
		if i == 1 && piece.GetTotals().GetSnapshots() != 2 {
			t.Errorf("totals %v", piece.GetTotals())
		}
	}
}

// Rows that do not fit into one message with those of the next window stay separate, while there is room for them.
func TestMergedSnapshotsFitIntoOneMessage(t *testing.T) {
	o := New("a", 1, 40<<20)
	for w := range uint32(6) {
		s := measured(w, 1, 0)
		s.Records = append(s.Records, &spatev1.RequestRecord{Error: string(make([]byte, 9<<20))})
		o.Add(&spatev1.AssignmentRef{RunId: "run"}, s)
	}
	held := 0
	for i, p := range o.fresh {
		if size := proto.Size(p.snapshot); size != p.bytes || size > maxBytes {
			t.Errorf("snapshot %d has %d bytes, taken for %d", i, size, p.bytes)
		}
		held += len(p.snapshot.GetRecords())
	}
	if _, dropped := o.Losses(); o.bytes > o.limit || held != 4 || dropped != 2 {
		t.Errorf("%d bytes, %d rows held, %d dropped", o.bytes, held, dropped)
	}
}

// BenchmarkFullOutbox adds windows with 3,000 rows to a full outbox of 64 MiB, which can only merge and drop.
func BenchmarkFullOutbox(b *testing.B) {
	o := New("a", 1, 64<<20)
	ref := &spatev1.AssignmentRef{RunId: "run"}
	window := uint32(0)
	add := func() time.Duration {
		s := measured(window, 1, 0)
		for i := range uint64(3000) {
			s.Records = append(s.Records,
				&spatev1.RequestRecord{Index: i, ItlNs: slices.Repeat([]int64{20_000_000}, 150)})
		}
		window++
		began := time.Now()
		o.Add(ref, s)
		return time.Since(began)
	}
	for o.dropped == 0 {
		add()
	}
	var longest time.Duration
	b.ReportAllocs()
	for b.Loop() {
		longest = max(longest, add())
	}
	b.ReportMetric(float64(longest)/1e6, "longest-ms")
}
