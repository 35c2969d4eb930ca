package schedule

import (
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The shape that each process tells is that of its gaps: their mean is 1, their variance 1 / shape.
func TestShape(t *testing.T) {
	for _, name := range []string{"constant", "poisson", "gamma"} {
		load := &spatev1.LoadPoint{Arrival: name}
		if name == "gamma" {
			load.Burstiness = 0.5
		}
		g, shape := newGaps(load, 1), GapShape(load)
		if (g == nil) != (shape == 0) {
			t.Errorf("%s: shape %v", name, shape)
		}
		if g == nil {
			continue
		}
		const n = 200_000
		var sum, squares float64
		for i := range uint64(n) {
			gap := g.At(i)
			sum, squares = sum+gap, squares+gap*gap
		}
		mean := sum / n
		if dispersion := (squares/n - mean*mean) * shape; mean < 0.99 || mean > 1.01 || dispersion < 0.97 ||
			dispersion > 1.03 {
			t.Errorf("%s: mean %v, variance times shape %v", name, mean, dispersion)
		}
	}
	if shape := GapShape(&spatev1.LoadPoint{Concurrency: 1}); shape != 0 {
		t.Errorf("a closed loop has the shape %v", shape)
	}
}
