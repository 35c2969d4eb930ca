package live

import (
	"testing"

	"github.com/spate-load/spate/aggregate/results"
)

func TestThroughputIsThatOfTheSteadyPart(t *testing.T) {
	whole := 10.0
	for _, c := range []struct {
		steady *results.Steady
		want   float64
	}{
		{nil, 10},
		{&results.Steady{DurationS: 4, RequestThroughput: 12}, 10},
		{&results.Steady{DurationS: 5, RequestThroughput: 12}, 12},
	} {
		if got := throughput(results.StageResult{RequestThroughput: &whole, Steady: c.steady}); *got != c.want {
			t.Errorf("%v: %v, want %v", c.steady, *got, c.want)
		}
	}
	if got := throughput(results.StageResult{}); got != nil {
		t.Errorf("nothing is %v", *got)
	}
}
