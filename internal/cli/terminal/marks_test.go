package terminal

import (
	"math"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSpark(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		values  []float64
		cells   int
		want    string
		largest float64
	}{
		"from 0 to the largest": {[]float64{0, 1, 2, 6}, 4, "▁▂▃▇", 6},
		"fewer than cells":      {[]float64{5}, 3, "▇  ", 5},
		"the last of more":      {[]float64{9, 0, 4}, 2, "▁▇", 4},
		"none is a blank":       {[]float64{1, nan, 1}, 3, "▇ ▇", 1},
		"all the same":          {[]float64{0, 0}, 2, "▁▁", 0},
		"nothing":               {nil, 2, "  ", nan},
		"no cells":              {[]float64{1}, 0, "", nan},
	} {
		got, largest := Spark(c.values, c.cells)
		if got != c.want || largest != c.largest && !(math.IsNaN(largest) && math.IsNaN(c.largest)) {
			t.Errorf("%s: %q, largest %v", name, got, largest)
		}
	}
}

// Whatever the values, a sparkline and a bar are as wide as they should be.
func TestMarksHaveTheirWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()))).Draw(t, "values")
		cells := rapid.IntRange(0, 50).Draw(t, "cells")
		if got, _ := Spark(values, cells); utf8.RuneCountInString(got) != cells {
			t.Fatalf("%q", got)
		}
		if got := Bar(rapid.Float64().Draw(t, "part"), cells, "━", "─"); utf8.RuneCountInString(got) != cells {
			t.Fatalf("%q", got)
		}
	})
}
