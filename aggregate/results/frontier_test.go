package results

import "testing"

func TestSustainedIsThatOfTheSteadyPart(t *testing.T) {
	whole := 10.0
	for _, c := range []struct {
		steady      *Steady
		concurrency uint32
		want        float64
	}{
		{nil, 0, 10},
		{&Steady{DurationS: 4, RequestThroughput: 12}, 0, 10},
		{&Steady{DurationS: 5, RequestThroughput: 12}, 0, 12},
		{&Steady{DurationS: 1, RequestThroughput: 12}, 8, 12},
	} {
		stage := StageResult{RequestThroughput: &whole, Steady: c.steady}
		if c.concurrency > 0 {
			stage.Load.Concurrency = &c.concurrency
		}
		if got, _ := stage.Sustained(); *got != c.want {
			t.Errorf("%v: %v, want %v", c.steady, *got, c.want)
		}
	}
	if got, tokens := new(StageResult).Sustained(); got != nil || tokens != nil {
		t.Errorf("nothing is %v, %v", got, tokens)
	}
}
