package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// world is a machine whose wall clock is set now and then.
type world struct {
	now    Instant
	offset int64
	pause  func() Instant // time that passes between the two clock calls of a reading
	paused Instant        // the longest since it was set to 0
}

func (w *world) read() (Instant, int64) {
	wall := int64(w.now) + w.offset
	pause := w.pause()
	w.now, w.paused = w.now+pause, max(w.paused, pause)
	return w.now, wall
}

// In whatever order timestamps are taken, clocks are read and the wall clock is stepped, a timestamp that is converted
// is converted to the instant at which it was taken.
func TestSteppedWallBendsNoStamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pause := rapid.SampledFrom([]Instant{25, 25, 25, 25, 25, 25, 40, 3_000, 400_000})
		m := &world{now: 1e12, offset: 1.7e18, pause: func() Instant { return pause.Draw(t, "pause") }}
		wall := newWall(m.read)
		type stamp struct {
			truth Instant
			wall  int64
		}
		var unread []stamp
		// since the last conversion: of two steps between two calls Wall only sees the sum
		stepped := false
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			m.now += Instant(rapid.Int64Range(0, 2e7).Draw(t, "later"))
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				if step := rapid.Int64Range(-1e8, 1e8).Draw(t, "step"); !stepped {
					m.offset += step
					stepped = true
				}
			case 1, 2:
				unread = append(unread, stamp{m.now, int64(m.now) + m.offset})
			default:
				for _, s := range unread {
					m.paused = 0
					at, now, ok := wall.Instant(s.wall)
					if at > now {
						t.Fatalf("stamped at %d, read before it at %d", at, now)
					}
					if wrong := apart(int64(at), int64(s.truth)); ok && wrong > wallNoise+time.Duration(m.paused)+
						time.Microsecond {
						t.Fatalf("stamp of %d mapped to %d, wrong by %v", s.truth, at, wrong)
					}
				}
				stepped = stepped && len(unread) == 0
				unread = unread[:0]
			}
		}
	})
}

func TestStampsOfAQuietWallAreTaken(t *testing.T) {
	m := &world{now: 1e12, offset: 1.7e18, pause: func() Instant { return 30 }}
	wall := newWall(m.read)
	for range 1000 {
		truth := m.now
		m.now += 70_000
		at, _, ok := wall.Instant(int64(truth) + m.offset)
		if !ok || apart(int64(at), int64(truth)) > 100 {
			t.Fatalf("stamp of %d mapped to %d, %v", truth, at, ok)
		}
	}
}

func TestStampsAreTakenAgainAfterAStep(t *testing.T) {
	m := &world{now: 1e12, offset: 1.7e18, pause: func() Instant { return 30 }}
	wall := newWall(m.read)
	for _, step := range []int64{0, 5e9, -5e9, 1e6, -1e6} {
		m.offset += step
		wall.Instant(int64(m.now) + m.offset)
		m.now += Instant(max(step, -step)) + 1e6
		if _, _, ok := wall.Instant(int64(m.now) + m.offset); !ok {
			t.Errorf("after a step of %v: still refused", time.Duration(step))
		}
	}
}

func TestWallOfThisMachineAgreesWithNow(t *testing.T) {
	wall := NewWall()
	before := Now()
	stamp := time.Now().UnixNano()
	after := Now()
	at, now, ok := wall.Instant(stamp)
	if !ok {
		t.Skip("the wall clock was set during this test")
	}
	if at < before.Add(-wallNoise) || at > after.Add(wallNoise) || at > now {
		t.Fatalf("stamp between %d and %d mapped to %d", before, after, at)
	}
}

func BenchmarkWall(b *testing.B) {
	wall := NewWall()
	stamp := time.Now().UnixNano()
	b.ReportAllocs()
	for b.Loop() {
		wall.Instant(stamp)
	}
}

// The wall time of an instant does not depend on when it is asked for.
func TestWallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, wall := Now(), time.Now()
		time.Sleep(time.Hour)
		if got := WallTime(at); !got.Equal(wall) {
			t.Errorf("%v, want %v", got, wall)
		}
	})
}
