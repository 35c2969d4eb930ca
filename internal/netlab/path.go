package netlab

import (
	"math/rand/v2"
	"time"

	"github.com/spate-load/spate/clock"
)

// Path says what happens to packets from one host to another. The zero value delivers all packets at once.
type Path struct {
	// Delay is how long each packet takes. A round trip takes the delays of both directions.
	Delay time.Duration
	// Jitter is the most additional time that a packet may take; the time is uniformly distributed. Packets never
	// overtake each other.
	Jitter time.Duration
	// Stall is the additional time that some packets take; Stalls is their share, 0 to 1. The packets behind a stalled
	// packet wait, since packets never overtake.
	Stall  time.Duration
	Stalls float64
	// Loss is the share of packets that are lost, 0 to 1.
	Loss float64
	// Bandwidth is in bits per second, IP headers included. 0: no limit.
	Bandwidth float64
	// Queue is the most bytes that wait for the bandwidth; packets beyond that are lost. Default 256 KiB.
	Queue int
}

// defaultQueue is that of a small router.
const defaultQueue = 256 << 10

// Count holds the counters of a path.
type Count struct {
	// Carried packets entered the path and will come out of it; Bytes is their size.
	Carried, Bytes uint64
	// Lost counts packets lost by chance, Overflowed those lost to a full queue, Blocked those dropped by a partition
	// or by blocked UDP.
	Lost, Overflowed, Blocked uint64
}

// udp is the protocol's number in IP headers.
const udp = 17

// shaper decides when a packet arrives. It is pure: the caller supplies the time and the random source.
type shaper struct {
	path       Path
	cut, noUDP bool
	chance     *rand.Rand
	free       clock.Instant // when the bandwidth is free again
	last       clock.Instant // when the last packet arrives
	count      Count
}

// admit takes a packet of size bytes at now, and returns when it arrives and whether it does.
func (s *shaper) admit(now clock.Instant, size int, protocol byte) (arrives clock.Instant, ok bool) {
	switch {
	case s.cut, s.noUDP && protocol == udp:
		s.count.Blocked++
		return 0, false
	case s.path.Loss > 0 && s.chance.Float64() < s.path.Loss:
		s.count.Lost++
		return 0, false
	}
	sent, ok := s.send(now, size)
	if !ok {
		s.count.Overflowed++
		return 0, false
	}
	arrives = sent.Add(s.path.Delay)
	if s.path.Jitter > 0 {
		arrives = arrives.Add(time.Duration(s.chance.Int64N(int64(s.path.Jitter) + 1)))
	}
	if s.path.Stalls > 0 && s.chance.Float64() < s.path.Stalls {
		arrives = arrives.Add(s.path.Stall)
	}
	s.last = max(arrives, s.last)
	s.count.Carried++
	s.count.Bytes += uint64(size)
	return s.last, true
}

// send returns when the last bit of a packet is on the line: bits are sent one after the other at the bandwidth.
func (s *shaper) send(now clock.Instant, size int) (clock.Instant, bool) {
	if s.path.Bandwidth <= 0 {
		return now, true
	}
	queue := s.path.Queue
	if queue == 0 {
		queue = defaultQueue
	}
	begin := max(now, s.free)
	if begin.Sub(now) > s.takes(queue) {
		return 0, false
	}
	s.free = begin.Add(s.takes(size))
	return s.free, true
}

// takes returns how long size bytes need at the bandwidth.
func (s *shaper) takes(size int) time.Duration {
	return time.Duration(float64(size) * 8 / s.path.Bandwidth * float64(time.Second))
}
