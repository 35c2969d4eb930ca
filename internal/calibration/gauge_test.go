package calibration

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
)

func TestSentAt(t *testing.T) {
	for data, want := range map[string]clock.Instant{
		`{"id":"a","choices":[],"sent_ns":123456789}`:                   123456789,
		`{"text":"\"sent_ns\":5","sent_ns":7}`:                          7,
		`{"sent_ns":1,"choices":[]}`:                                    1,
		`{"sent_ns":999999999999999999}`:                                999999999999999999,
		`{"sent_ns":0}`:                                                 0,
		`"sent_ns":42`:                                                  42,
		`{"id":"a","choices":[{"delta":{"content":"x"}}],"sent_ns":8 }`: 8,
	} {
		if got, told := sentAt([]byte(data)); got != want || !told {
			t.Errorf("%s: %d, %v, want %d", data, got, told, want)
		}
	}
	for _, data := range []string{"", "{}", `{"sent_ns":}`, `{"sent_ns":"1"}`, `{"sent_ns":-1}`, `"sent_ns":`,
		`sent_ns:1`} {
		if got, told := sentAt([]byte(data)); told {
			t.Errorf("%s: %d is told", data, got)
		}
	}
}

func FuzzSentAt(f *testing.F) {
	f.Add([]byte(`{"id":"a","sent_ns":123}`))
	f.Add([]byte(`"sent_ns":99999999999999999999999999`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if at, told := sentAt(data); at < 0 || !told && at != 0 {
			t.Errorf("%q: %d, %v", data, at, told)
		}
	})
}

// frameAt returns a frame that was sent at an instant.
func frameAt(sent clock.Instant) []byte { return fmt.Appendf(nil, `{"id":"a","sent_ns":%d}`, sent) }

// token gives a watch a frame with token text.
func token(w *watch, sent, at, seen clock.Instant) {
	w.Frame(frameAt(sent), at, seen)
	w.Token()
}

func TestGaugeComparesWithTheTruth(t *testing.T) {
	g := newGauge(1)
	w := g.watch().(*watch)
	w.Began(1000, 1400)
	w.Frame(frameAt(1900), 2000, 2500) // a lead frame: no token
	token(w, 2000, 2100, 2900)         // wrong by 100, read 800 later
	token(w, 3000, 3300, 3400)         // by 300; the gap by 200
	token(w, 4000, 5100, 5100)         // no timestamp: by 1100; the gap by 800
	token(w, 5000, 5100, 5100)         // in the same read: by 100; by 1000
	w.Ended(&stream.Observation{})
	w.Began(6000, 6000)
	token(w, 6500, 6400, 6600) // a timestamp before the truth, by 100
	w.Ended(&stream.Observation{Err: &stream.Error{Message: "cut"}})
	w.Began(7000, 7000)
	w.Frame([]byte("{}"), 8000, 8100) // no true send time: it does not count
	w.Token()
	w.Ended(&stream.Observation{})
	w.Began(9000, 9000)
	w.Ended(&stream.Observation{Cancelled: true})
	want := Reading{
		Frame: Spread{5, 100, 1100}, TTFT: Spread{2, 100, 100},
		ITL: Spread{3, 800, 1000}, E2E: Spread{1, 100, 100},
		Lag: Spread{3, 200, 800}, Lateness: Spread{4, 0, 400},
		Coalesced: 1, Completed: 2, Failed: 1, Failure: "cut",
	}
	if got := g.read(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if again := g.read(); again != (Reading{}) {
		t.Errorf("the next window begins with %+v", again)
	}
}

// The gauge agrees with a sorted slice, over any number of shards.
func TestGaugeAgainstASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGauge(rapid.IntRange(1, 4).Draw(t, "shards"))
		var errors []int64
		for range rapid.IntRange(1, 6).Draw(t, "workers") {
			w := g.watch().(*watch)
			w.Began(1, 1)
			for i := range rapid.IntRange(1, 40).Draw(t, "tokens") {
				sent := clock.Instant(1000 * (i + 1))
				wrong := rapid.Int64Range(0, 2000).Draw(t, "wrong") // bins of one nanosecond
				token(w, sent, sent+clock.Instant(wrong), sent+clock.Instant(wrong)+1)
				errors = append(errors, wrong)
			}
			w.Ended(&stream.Observation{})
		}
		slices.SortFunc(errors, cmp.Compare[int64])
		at := func(p float64) int64 { return errors[max(0, int(p*float64(len(errors))+0.9999999)-1)] }
		want := Spread{uint64(len(errors)), at(0.5), at(0.99)}
		if got := g.read().Frame; got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

func TestWatchDoesNotAllocate(t *testing.T) {
	w := newGauge(1).watch().(*watch)
	data, at := frameAt(1000), clock.Instant(2000)
	w.Began(0, 0)
	frame := func() {
		at++
		w.Frame(data, at, at+500)
		w.Token()
	}
	frame() // touches the pages of the histograms
	if n := testing.AllocsPerRun(1000, frame); n > 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

func BenchmarkWatch(b *testing.B) {
	w := newGauge(1).watch().(*watch)
	at := clock.Instant(2000)
	data := frameAt(1000)
	b.ReportAllocs()
	for b.Loop() {
		at++
		w.Frame(data, at, at+500)
		w.Token()
	}
}
