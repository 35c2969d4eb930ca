package results

import (
	"math"
	"testing"
)

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
	stage := StageResult{Complete: true, RequestThroughput: &whole,
		Steady: &Steady{DurationS: 1, RequestThroughput: 12.5}}
	if got := stage.Lowered(); got != 0 { // of an open loop the difference is chance
		t.Errorf("an open loop is lowered by %v", got)
	}
	if stage.Load.Concurrency = new(uint32(8)); math.Abs(stage.Lowered()-0.2) > 1e-9 {
		t.Errorf("a closed loop is lowered by %v", stage.Lowered())
	}
	if stage.Complete = false; stage.Lowered() != 0 {
		t.Errorf("a stage that lacks an agent's part is lowered by %v", stage.Lowered())
	}
	if got, tokens := new(StageResult).Sustained(); got != nil || tokens != nil {
		t.Errorf("nothing is %v, %v", got, tokens)
	}
}
