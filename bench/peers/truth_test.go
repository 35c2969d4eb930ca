package main

import (
	"strings"
	"testing"
)

func TestReadTruth(t *testing.T) {
	file := `{"output_tokens":3,"arrived_ns":9000000,"arrived_by":"kernel","received_ns":1000000,"first_token_ns":2000000,"last_token_ns":3000000,"ended_ns":3500000,"tokens_ns":[2000000,2500000,3000000],"finish_reason":"length"}
{"output_tokens":3,"arrived_ns":18000000,"arrived_by":"kernel","received_ns":20000000,"first_token_ns":80000000,"last_token_ns":130000000,"ended_ns":131000000,"tokens_ns":[80000000,100000000,130000000],"finish_reason":"length"}
{"output_tokens":1,"received_ns":15000000,"ended_ns":16000000,"tokens_ns":[15500000]}
{"output_tokens":3,"arrived_ns":9000000,"arrived_by":"kernel","received_ns":10000000,"first_token_ns":60000000,"last_token_ns":100000000,"ended_ns":140000000,"tokens_ns":[60000000,80000000,100000000],"finish_reason":"length"}
`
	// The first request is a tool's own, before its load. The request with a single token was not answered completely.
	got, err := readTruth(strings.NewReader(file), Load{Requests: 2, OSL: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got.Requests != 2 || got.Tokens != 6 || got.Before != 1 || got.From != 10_000_000 {
		t.Errorf("%+v", got)
	}
	for what, pair := range map[string][2]float64{
		"mean TTFT": {*got.TTFT.Mean, 55}, "mean TTFT since arrival": {*got.Arrival.Mean, 56.5},
		"median TTFT": {*got.TTFT.P50, 55}, "p99 TTFT": {*got.TTFT.P99, 59.9},
		"mean ITL": {*got.ITL.Mean, 22.5}, "median ITL": {*got.ITL.P50, 20}, "mean TPOT": {*got.TPOT.Mean, 22.5},
	} {
		if d := pair[0] - pair[1]; d < -1e-9 || d > 1e-9 {
			t.Errorf("%s is %v, want %v", what, pair[0], pair[1])
		}
	}
}

// Times by two clocks have no mean.
func TestArrivalsByTheProgram(t *testing.T) {
	file := `{"output_tokens":1,"arrived_ns":1,"arrived_by":"kernel","received_ns":2,"first_token_ns":3,"finish_reason":"stop"}
{"output_tokens":1,"arrived_ns":2,"arrived_by":"program","received_ns":2,"first_token_ns":3,"finish_reason":"stop"}
`
	got, err := readTruth(strings.NewReader(file), Load{Requests: 2, OSL: 1})
	if err != nil || got.Requests != 2 || got.Arrival != (Summary{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadTruthBroken(t *testing.T) {
	_, err := readTruth(strings.NewReader("{}\n{\"output_tok"), Load{Requests: 1, OSL: 1})
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v, want an error that names line 2", err)
	}
}

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
