package schedule

import (
	"fmt"
	"math"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Times gives the times of a trace's rows. Implementations must be safe for concurrent use and need not hold the rows
// in memory.
type Times interface {
	// Len returns the number of rows.
	Len() uint64
	// At returns the time of row i since the trace's start, and false if the row has no time or cannot be read.
	At(i uint64) (time.Duration, bool)
}

// NewReplay returns the share's part of a trace: arrival i is at the time of row i divided by replay_speed, rounded to
// the nearest nanosecond. The schedule ends with the trace or earlier, like that of NewOpen. If the trace ends it, the
// cool-down is the trace's last part. A row without a time, or earlier than the row before it, ends the schedule with
// an error. Rows are read in order as the schedule proceeds, each once unless shares change hands.
func NewReplay(load *spatev1.LoadPoint, seed uint64, times Times, s Share) (*Open, error) {
	r := &replay{times: times, rows: times.Len(), speed: load.GetReplaySpeed()}
	last, err := r.at(r.rows - 1)
	if err != nil {
		return nil, err
	}
	l, err := limitsOf(load, true, last)
	if err != nil {
		return nil, err
	}
	return newOpen(r, l, s, drawsOf(load, seed)), nil
}

// replay generates arrivals at the times of a trace's rows.
type replay struct {
	times Times
	rows  uint64
	speed float64
	row   uint64
	last  time.Duration
}

// next returns the offset of the next row.
func (r *replay) next() (time.Duration, error) {
	if r.row == r.rows {
		return 0, errOver
	}
	offset, err := r.at(r.row)
	if err != nil {
		return 0, err
	}
	if offset < r.last {
		return 0, fmt.Errorf("schedule: row %d of the trace is at %v, before row %d at %v: sort the trace by time",
			r.row, offset, r.row-1, r.last)
	}
	r.row++
	r.last = offset
	return offset, nil
}

// at returns the offset of row i.
func (r *replay) at(i uint64) (time.Duration, error) {
	at, ok := r.times.At(i)
	switch {
	case !ok:
		return 0, fmt.Errorf("schedule: row %d of the %d rows of the trace has no readable time", i, r.rows)
	case at < 0:
		return 0, fmt.Errorf("schedule: row %d of the trace is at %v: times count from the start of the trace", i, at)
	case r.speed == 1:
		return at, nil
	}
	offset := math.RoundToEven(float64(at) / r.speed)
	if offset >= math.MaxInt64 {
		return 0, fmt.Errorf("schedule: row %d of the trace, at %v, is too late to be replayed at speed %v", i,
			at, r.speed)
	}
	return time.Duration(offset), nil
}

func (r *replay) copyTo(used process) process { return copied(r, used) }
