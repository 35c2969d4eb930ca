package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Wall maps times of this machine's wall clock (CLOCK_REALTIME) to instants. The kernel stamps received packets on that
// clock only. It is safe for concurrent use.
//
// Why a step of the wall clock can bend no duration: the kernel runs both clocks from one counter with one rate.
// Slewing (NTP, adjtime) changes the rate of both alike, so wall - monotonic is a constant until somebody sets the wall
// clock, and every setting starts a new era with a new constant. A stamp is mapped with the constant of the present
// era, and only if it can belong to no earlier one:
//
//	a stamp of the era before, taken at t <= since, reads t + d1 on the wall; mapped with d2 it comes out as t + d1 - d2,
//	so at most since + d1 - d2. What maps to a later instant than that, and than since itself, is of this era.
//
// Everything else is refused: a few stamps around a step are lost, none is wrong. Of two steps between two calls only
// the sum can be seen: a stamp taken between the two may be wrong by one of them. And a step that is shorter than the
// time between the two clock calls of a reading, which is tens of nanoseconds unless the program is interrupted there,
// is seen by the next reading only.
type Wall struct {
	present atomic.Pointer[era]
	begin   sync.Mutex // held while an era begins
	read    func() (Instant, int64)
}

// era is a time during which nobody set the wall clock.
type era struct {
	offset int64   // wall - monotonic, in nanoseconds
	from   Instant // a stamp that maps to an earlier instant may belong to an era before
}

const (
	// wallNoise is how far wall - monotonic may look off before it is measured again: more than two clock calls cost,
	// and the largest step that can stay unseen.
	wallNoise = 5 * time.Microsecond
	// wallTight is how close together the clock calls of a measurement must be for it to be taken at once.
	wallTight = 200 * time.Nanosecond
	// wallTries bounds the calls where the clock never answers that fast.
	wallTries = 64
)

// NewWall reads both clocks. Stamps taken before are not to be mapped.
func NewWall() *Wall { return newWall(both) }

func newWall(read func() (Instant, int64)) *Wall {
	w := &Wall{read: read}
	w.look(nil)
	return w
}

// Instant maps a stamp of the wall clock, in nanoseconds since 1970, that was taken before the call. It returns the
// instant of the stamp and the instant of the call. It is false if a step of the wall clock left it open what the stamp
// means; at is then the instant of the call.
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

// look measures wall - monotonic anew and begins an era if it has changed since the era that was seen.
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

// next returns the era that follows e, noticed at since. The noise is that of steps too small to be seen.
func (e *era) next(offset int64, since Instant) *era {
	if e == nil {
		return &era{offset: offset}
	}
	last := max(e.from, since) + Instant(e.offset-offset)
	return &era{offset: offset, from: max(since, last.Add(wallNoise))}
}

// measure returns wall - monotonic by the tightest of several readings, how wrong that may be, and when it was done.
// Each reading of the wall lies between two of the monotonic clock.
func (w *Wall) measure() (offset int64, wrong time.Duration, at Instant) {
	wrong = time.Hour
	before, _ := w.read()
	for range wallTries {
		after, wall := w.read()
		half := after.Sub(before) / 2
		if half < wrong {
			offset, wrong = wall-int64(before.Add(half)), half
		}
		before = after
		if wrong <= wallTight/2 {
			break
		}
	}
	return offset, wrong, before
}

// both reads the two clocks, the wall first.
func both() (Instant, int64) {
	t := time.Now()
	return epochInstant + Instant(t.Sub(epochTime)), t.UnixNano()
}

// apart is the distance of two offsets.
func apart(a, b int64) time.Duration { return time.Duration(max(a-b, b-a)) }
