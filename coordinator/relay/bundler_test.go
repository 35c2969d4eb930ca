package relay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// snapshotOf returns a snapshot of an agent, which has its stream's number as its name, with one value.
func snapshotOf(stream uint64, window uint32) *spatev1.RelayedSnapshot {
	h := histogram.New(histogram.Times)
	h.Record(int64(stream)*1e6 + int64(window))
	return &spatev1.RelayedSnapshot{Stream: stream, Snapshot: &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{
			RunId: "r", Agent: fmt.Sprint(stream), Incarnation: 1, Sequence: uint64(window) + 1,
		},
		Window: window,
		Series: []*spatev1.Series{{
			Counters:      &spatev1.Counters{Started: 1},
			Distributions: []*spatev1.Distribution{h.Proto(spatev1.Metric_METRIC_TTFT)},
		}},
	}}
}

// inEurope says that all agents are of one region.
func inEurope(*spatev1.SnapshotKey) (origin, bool) { return origin{region: "eu"}, true }

// taken returns what a bundler sends at an instant, in words: streams by window, those of a bundle in brackets.
func taken(b *bundler, at clock.Instant) (words []string, m *spatev1.RelayPushRequest) {
	m, _ = b.take(at, 1<<30)
	for _, s := range m.GetSnapshots() {
		words = append(words, fmt.Sprintf("%d:%d", s.GetSnapshot().GetWindow(), s.GetStream()))
	}
	for _, one := range m.GetBundles() {
		var streams []uint64
		for _, x := range one.GetMembers() {
			streams = append(streams, x.GetStream())
		}
		words = append(words, fmt.Sprintf("%d:%d", one.GetMerged().GetWindow(), streams))
	}
	return words, m
}

// What is sent, and when.
func TestBundles(t *testing.T) {
	b := newBundler(inEurope)
	expect := func(at clock.Instant, want ...string) *spatev1.RelayPushRequest {
		t.Helper()
		got, m := taken(b, at)
		if !slices.Equal(got, want) {
			t.Errorf("at %d it sends %v, want %v", at, got, want)
		}
		return m
	}
	done := 0
	add := func(stream uint64, window uint32, at clock.Instant) {
		b.add(snapshotOf(stream, window), at, func() { done++ })
	}
	const late = clock.Instant(patience)
	add(1, 0, 0)
	add(2, 0, 1)
	expect(2)                    // it is not known yet who else is there
	m := expect(late, "0:[1 2]") // so it waits
	if s := m.Bundles[0].Members[0].Sender; s.GetAgent() != "1" || s.GetIncarnation() != 1 {
		t.Errorf("the sender is %v", s)
	}
	add(3, 0, late+1) // a straggler
	add(1, 1, late+2)
	add(2, 1, late+3)
	expect(late + 4)        // 3 is one of them
	expect(2*late+1, "0:3") // of one snapshot there is no bundle
	b.answered(3, 2*late+1)
	add(3, 1, 2*late+1)
	m = expect(2*late+1, "1:[1 2 3]") // all are there
	if m.Bundles[0].Members[0].Sender != nil || m.Bundles[0].Members[2].Sender == nil {
		t.Error("a sender is told once, when its stream is in a bundle for the first time")
	}
	add(2, 0, 2*late+2) // its window has gone, and an earlier one is in a bundle
	expect(2*late + 3)
	if answered := b.answeredBundle(&spatev1.BundleAnswer{Number: 1}, 2*late+3); len(answered) != 2 || done != 3 {
		t.Errorf("%d are answered, %d in all", len(answered), done)
	}
	expect(2*late + 3)
	b.answeredBundle(&spatev1.BundleAnswer{Number: 2, Alone: []uint64{1}}, 2*late+4) // 1 is not wanted
	expect(2*late+4, "1:1")
	m = expect(3*late+4, "1:[2 3]")
	b.answeredBundle(&spatev1.BundleAnswer{Number: m.Bundles[0].Number}, 3*late+5)
	expect(3*late+5, "0:2")
	b.close(3)
	if m := expect(3*late + 6); !slices.Equal(m.GetClosed(), []uint64{3}) {
		t.Errorf("closed: %v", m.GetClosed())
	}
}

// A relay that passes everything on makes no bundles, and so does one that does not know an agent.
func TestWithoutBundles(t *testing.T) {
	stranger := func(*spatev1.SnapshotKey) (origin, bool) { return origin{}, false }
	for _, of := range []func(*spatev1.SnapshotKey) (origin, bool){nil, stranger} {
		b := newBundler(of)
		for stream := range uint64(3) {
			b.add(snapshotOf(stream+1, 0), 0, func() {})
		}
		if got, _ := taken(b, 0); len(got) != 3 {
			t.Errorf("it sends %v", got)
		}
	}
}

// A snapshot that cannot be in a bundle goes by itself, and the others without it.
func TestFaultySnapshotsGoByThemselves(t *testing.T) {
	b := newBundler(inEurope)
	for stream := range uint64(4) {
		s := snapshotOf(stream+1, 0)
		if stream == 2 {
			s.Snapshot.Series[0].Distributions[0].Histogram = []byte("garbage")
		}
		b.add(s, 0, func() {})
	}
	if got, _ := taken(b, clock.Instant(patience)); fmt.Sprint(got) != "[0:3 0:[1 2 4]]" {
		t.Errorf("it sends %v", got)
	}
}

// peer is a coordinator that takes what comes in any order of its answers, and remembers what it has.
type peer struct {
	t       *rapid.T
	b       *bundler
	now     clock.Instant
	pending []func()            // answers that were not given yet
	has     map[string]int      // how often it took a snapshot
	last    map[uint64]uint32   // windows taken, by stream
	acked   map[uint64][]uint32 // windows acked, by stream
}

// receive takes what the relay sends. In bundles it takes only windows that follow the last, as coordinators do.
func (f *peer) receive() {
	m, _ := f.b.take(f.now, 1<<20)
	for _, s := range m.GetSnapshots() {
		f.pending = append(f.pending, func() {
			f.keep(s.GetStream(), s.GetSnapshot().GetWindow())
			f.acked[s.GetStream()] = append(f.acked[s.GetStream()], s.GetSnapshot().GetWindow())
			f.b.answered(s.GetStream(), f.now)
		})
	}
	for _, one := range m.GetBundles() {
		f.pending = append(f.pending, func() { f.answer(one) })
	}
}

func (f *peer) keep(stream uint64, window uint32) {
	f.has[fmt.Sprint(stream, window)]++
	f.last[stream] = max(f.last[stream], window+1)
}

func (f *peer) answer(one *spatev1.Bundle) {
	a := &spatev1.BundleAnswer{Number: one.GetNumber()}
	window := one.GetMerged().GetWindow()
	for _, m := range one.GetMembers() {
		if f.last[m.GetStream()] != window || rapid.IntRange(0, 9).Draw(f.t, "not wanted") == 0 {
			a.Alone = append(a.Alone, m.GetStream())
		}
	}
	if len(a.Alone) == 0 {
		for _, m := range one.GetMembers() {
			f.keep(m.GetStream(), window)
		}
	}
	for _, s := range f.b.answeredBundle(a, f.now) {
		f.acked[s.GetStream()] = append(f.acked[s.GetStream()], s.GetSnapshot().GetWindow())
	}
}

// Whatever comes when, and whatever the coordinator wants by itself: each snapshot is taken once, and those of one
// stream are acked in order.
func TestEachSnapshotIsTakenOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBundler(inEurope)
		f := &peer{t: t, b: b, has: map[string]int{}, last: map[uint64]uint32{}, acked: map[uint64][]uint32{}}
		next, done := map[uint64]uint32{}, 0
		added := 0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			f.now += clock.Instant(rapid.Int64Range(0, int64(patience)).Draw(t, "pause"))
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				stream := rapid.Uint64Range(1, 4).Draw(t, "stream")
				b.add(snapshotOf(stream, next[stream]), f.now, func() { done++ })
				next[stream]++
				added++
			case 1:
				f.receive()
			case 2: // answers of bundles come in order, and those of a stream do: the oldest
				if len(f.pending) > 0 {
					give := f.pending[0]
					f.pending = f.pending[1:]
					give()
				}
			}
		}
		for range 200 {
			f.now += clock.Instant(patience)
			f.receive()
			for len(f.pending) > 0 {
				give := f.pending[0]
				f.pending = f.pending[1:]
				give()
			}
		}
		if done != added || len(f.has) != added {
			t.Fatalf("%d snapshots, %d are done, and the coordinator has %d", added, done, len(f.has))
		}
		for name, n := range f.has {
			if n != 1 {
				t.Fatalf("snapshot %s is there %d times", name, n)
			}
		}
		for stream, windows := range f.acked {
			if !slices.IsSorted(windows) || len(windows) != int(next[stream]) {
				t.Fatalf("stream %d is acked %v", stream, windows)
			}
		}
	})
}
