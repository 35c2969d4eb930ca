package schedule

import (
	"fmt"
	"math"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule/portable"
	"github.com/spate-load/spate/workload/draw"
)

// think is the time between a request's end and the next request of its slot.
type think struct {
	mean        time.Duration
	exponential bool
	random      draw.Sequence
}

// newThink reads a think time. Unset is 0.
func newThink(t *spatev1.ThinkTime, seed uint64) (think, error) {
	mean, err := span("think_time", t.GetMean())
	if err != nil {
		return think{}, fmt.Errorf("schedule: %w", err)
	}
	if mean > math.MaxInt64/40 {
		return think{}, fmt.Errorf("schedule: think time is %v: it must be below 7 years", mean)
	}
	switch d := t.GetDistribution(); d {
	case "", "constant":
		return think{mean: mean}, nil
	case "exponential":
		return think{mean: mean, exponential: true, random: draw.New(seed, "think time")}, nil
	default:
		return think{}, fmt.Errorf("schedule: unknown distribution of think times %q: use constant or exponential",
			d)
	}
}

// after returns the think time after request i. An exponential one is -ln(1 - U_i) times the mean, at most 36.8 times
// the mean.
func (t *think) after(i uint64) time.Duration {
	if !t.exponential {
		return t.mean
	}
	return time.Duration(math.RoundToEven(float64(t.mean) * portable.Exponential(t.random.At(i))))
}
