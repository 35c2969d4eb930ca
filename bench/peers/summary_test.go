package main

import "testing"

func TestSummarizeNothing(t *testing.T) {
	if s := summarize(nil); s.Mean != nil || s.P50 != nil || s.P99 != nil {
		t.Errorf("%+v of nothing, want nothing", s)
	}
}

func TestMedian(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		values []*float64
		want   string
	}{
		{nil, "n/a"},
		{[]*float64{nil, nil}, "n/a"},
		{[]*float64{n(3), nil, n(1), n(100)}, "3.00"},
		{[]*float64{n(3), n(1)}, "2.00"},
	} {
		if got := number(median(c.values)); got != c.want {
			t.Errorf("median is %s, want %s", got, c.want)
		}
	}
}

func TestLessUnknown(t *testing.T) {
	one := 1.0
	d := Summary{Mean: &one}.less(Summary{Mean: &one, P50: &one})
	if d.Mean == nil || *d.Mean != 0 || d.P50 != nil || d.P99 != nil {
		t.Errorf("%+v, want a mean of 0 and nothing else", d)
	}
}
