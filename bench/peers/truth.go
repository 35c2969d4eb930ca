package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Truth is what the server did in a run.
type Truth struct {
	TTFT Summary `json:"ttft_ms"` // send of the first token - arrival of the request in the server's handler
	// Arrival is the send of the first token - the arrival of the request's last byte at the machine by the kernel's
	// timestamp. It is empty if a request has no such timestamp.
	Arrival Summary `json:"ttft_since_arrival_ms"`
	ITL     Summary `json:"itl_ms"`  // gaps between the sends of a request's tokens, over all requests
	TPOT    Summary `json:"tpot_ms"` // (send of the last token - send of the first token) / (tokens - 1)
	// Requests is how many requests were answered completely, Tokens how many tokens they had.
	Requests int `json:"requests"`
	Tokens   int `json:"tokens"`
	// Before is how many more requests the tool sent earlier, to check whether the server is there or to warm it up.
	Before int `json:"requests_before"`
	// From is the arrival of the first request, in ns of CLOCK_MONOTONIC.
	From int64 `json:"from_ns"`
}

// served is a line of the server's truth file.
type served struct {
	OutputTokens int     `json:"output_tokens"`
	Arrived      int64   `json:"arrived_ns"`
	ArrivedBy    string  `json:"arrived_by"`
	Received     int64   `json:"received_ns"`
	FirstToken   int64   `json:"first_token_ns"`
	LastToken    int64   `json:"last_token_ns"`
	Tokens       []int64 `json:"tokens_ns"`
	FinishReason string  `json:"finish_reason"`
}

// readTruth reads a truth file. Of all requests that were answered completely it counts the last ones, as many as the
// load has: the tool sent the earlier ones on its own account. Requests whose number of tokens is not the load's do not
// count either.
func readTruth(file io.Reader, l Load) (Truth, error) {
	whole, err := readServed(file, l.OSL)
	if err != nil {
		return Truth{}, err
	}
	slices.SortFunc(whole, func(a, b served) int { return int(a.Received - b.Received) })
	before := max(0, len(whole)-l.Requests)
	return truthOf(whole[before:], before), nil
}

// readServed returns the requests that were answered with that many tokens.
func readServed(file io.Reader, tokens int) ([]served, error) {
	var whole []served
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var r served
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("truth file, line %d: %w", n, err)
		}
		if r.FinishReason != "" && r.OutputTokens == tokens {
			whole = append(whole, r)
		}
	}
	return whole, lines.Err()
}

func truthOf(requests []served, before int) Truth {
	t := Truth{Requests: len(requests), Before: before}
	var ttft, arrival, itl, tpot []float64
	for i, r := range requests {
		ttft = append(ttft, ms(r.FirstToken-r.Received))
		if r.ArrivedBy == "kernel" {
			arrival = append(arrival, ms(r.FirstToken-r.Arrived))
		}
		for j := 1; j < len(r.Tokens); j++ {
			itl = append(itl, ms(r.Tokens[j]-r.Tokens[j-1]))
		}
		if r.OutputTokens > 1 {
			tpot = append(tpot, ms(r.LastToken-r.FirstToken)/float64(r.OutputTokens-1))
		}
		if i == 0 {
			t.From = r.Received
		}
		t.Tokens += r.OutputTokens
	}
	t.TTFT, t.ITL, t.TPOT = summarize(ttft), summarize(itl), summarize(tpot)
	if len(arrival) == len(ttft) {
		t.Arrival = summarize(arrival)
	}
	return t
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// Summary holds the compared numbers of a distribution, in milliseconds. A number that a tool does not report is nil.
type Summary struct {
	Mean *float64 `json:"mean"`
	P50  *float64 `json:"p50"`
	P99  *float64 `json:"p99"`
}

// summarize returns the summary of values, with nil numbers if there are none. Percentiles are interpolated linearly
// between the neighbouring values, as by default in NumPy and the tools in Python that use it.
func summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	mean, p50, p99 := sum/float64(len(sorted)), quantile(sorted, 0.5), quantile(sorted, 0.99)
	return Summary{Mean: &mean, P50: &p50, P99: &p99}
}

// quantile returns the value at a share of sorted values.
func quantile(sorted []float64, share float64) float64 {
	at := share * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// less returns s - t. A number is nil if it is nil in s or t.
func (s Summary) less(t Summary) Summary {
	return Summary{Mean: difference(s.Mean, t.Mean), P50: difference(s.P50, t.P50), P99: difference(s.P99, t.P99)}
}

func difference(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	d := *a - *b
	return &d
}

// median returns the median of the values that are not nil, or nil if there are none. For an even number of values it
// is the mean of the two in the middle.
func median(values []*float64) *float64 {
	var known []float64
	for _, v := range values {
		if v != nil {
			known = append(known, *v)
		}
	}
	if len(known) == 0 {
		return nil
	}
	slices.Sort(known)
	m := quantile(known, 0.5)
	return &m
}
