package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Wall converts times of this machine's wall clock (CLOCK_REALTIME) to instants. The kernel timestamps received packets
// only by that clock. It is safe for concurrent use.
//
// A step of the wall clock cannot falsify a duration. The kernel runs both clocks from one counter at one rate. Slewing
// (NTP, adjtime) changes the rate of both alike, so wall - monotonic is constant until the wall clock is set, and each
// setting starts a new era with a new constant. A timestamp is mapped with the constant of the present era, and only if
// it cannot belong to an earlier one:
//
//	a timestamp of the previous era, taken at t <= since, reads t + d1; mapped with d2 it becomes t + d1 - d2,
//	at most since + d1 - d2. A timestamp that maps to a later instant than that, and than since, is of this era.
//
// All others are refused: a few timestamps around a step are lost, but none is wrong. There are two limits. Of two
// steps between two calls only the sum can be seen, so a timestamp taken between them may be wrong by one step. And a
// step smaller than the time between the two clock calls of a reading, tens of nanoseconds unless the program is
// interrupted there, is seen only by the next reading.
type Wall struct {
	present atomic.Pointer[era]
	begin   sync.Mutex // held while a new era starts
	read    func() (Instant, int64)
}

// era is a period in which the wall clock was not set.
type era struct {
	offset int64   // wall - monotonic, in nanoseconds
	from   Instant // timestamps that map to an earlier instant may be of an earlier era
}

const (
	// wallNoise is the deviation of wall - monotonic above which it is measured again. It is more than two clock calls
	// take, and the largest step that can stay unseen.
	wallNoise = 5 * time.Microsecond
	// wallTight is how close together the clock calls of a reading must be to end a measurement at once.
	wallTight = 200 * time.Nanosecond
	// wallTries bounds the readings of a measurement if no reading is that tight.
	wallTries = 64
)

// NewWall reads both clocks. Timestamps taken before it must not be converted.
func NewWall() *Wall { return newWall(both) }

func newWall(read func() (Instant, int64)) *Wall {
	w := &Wall{read: read}
	w.look(nil)
	return w
}

// Instant converts a timestamp of the wall clock, in nanoseconds since 1970, that was taken before the call. It returns
// the instant of the timestamp and the instant of the call. If a step of the wall clock makes the timestamp ambiguous,
// ok is false and at is the instant of the call.
func (w *Wall) Instant(stamp int64) (at, now Instant, ok bool) {
	now, wall := w.read()
	e := w.present.Load()
	if apart(wall-int64(now), e.offset) > wallNoise {
		e = w.look(e)
	}
	at = Instant(stamp - e.offset)
	if at < e.from || at > now.Add(wallNoise) {
		return now, now, false
	}
	return min(at, now), now, true
}

// look measures wall - monotonic again, and starts a new era if it has changed since the era seen. It returns the
// present era.
func (w *Wall) look(seen *era) *era {
	w.begin.Lock()
	defer w.begin.Unlock()
	e := w.present.Load()
	if e != seen {
		return e
	}
	offset, wrong, at := w.measure()
	if e != nil && apart(offset, e.offset) <= max(wrong, time.Microsecond) {
		return e
	}
	e = e.next(offset, at)
	w.present.Store(e)
	return e
}

// next returns the era that follows e and was noticed at since. It allows for wallNoise, because of steps too small to
// be seen.
func (e *era) next(offset int64, since Instant) *era {
	if e == nil {
		return &era{offset: offset}
	}
	last := max(e.from, since) + Instant(e.offset-offset)
	return &era{offset: offset, from: max(since, last.Add(wallNoise))}
}

// measure returns wall - monotonic by the tightest of several readings, its largest error, and when it was measured.
// Each reading of the wall clock lies between two readings of the monotonic clock.
func (w *Wall) measure() (offset int64, wrong time.Duration, at Instant) {
	wrong = time.Hour
	before, _ := w.read()
	for range wallTries {
		after, wall := w.read()
		if half := after.Sub(before) / 2; half < wrong {
			offset, wrong = wall-int64(before.Add(half)), half
		}
		before = after
		if wrong <= wallTight/2 {
			break
		}
	}
	return offset, wrong, before
}

// both reads both clocks with one call of time.Now, which reads the wall clock first.
func both() (Instant, int64) {
	t := time.Now()
	return epochInstant + Instant(t.Sub(epochTime)), t.UnixNano()
}

// WallTime returns the wall time of an instant, by the wall clock as it is set now.
func WallTime(at Instant) time.Time {
	now, wall := both()
	return time.Unix(0, wall).Add(at.Sub(now))
}

// apart returns the absolute difference of two offsets.
func apart(a, b int64) time.Duration { return time.Duration(max(a-b, b-a)) }
