package stream

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/api"
)

// readEvents feeds a stream in pieces that end at the cuts and returns the data of its events.
func readEvents(stream []byte, cuts ...int) (data []string, err error) {
	var e eventReader
	e.Reset(api.ServerSentEvents)
	from := 0
	for _, to := range append(cuts, len(stream)) {
		for from < to {
			n := copy(e.Space(), stream[from:to])
			e.Filled(n)
			from += n
			for d, ok := e.Next(); ok; d, ok = e.Next() {
				data = append(data, string(d))
			}
			if e.Err != nil {
				return data, e.Err
			}
		}
	}
	if d, ok := e.Last(); ok {
		data = append(data, string(d))
	}
	return data, e.Err
}

// readLent is readEvents with attached pieces, which are overwritten after detach. If copied > 0, every copied-th piece
// is copied.
func readLent(stream []byte, copied int, cuts ...int) (data []string, err error) {
	var e eventReader
	e.Reset(api.ServerSentEvents)
	from := 0
	for i, to := range append(cuts, len(stream)) {
		piece := bytes.Clone(stream[from:max(from, to)])
		from += len(piece)
		if copied > 0 && i%copied == 0 {
			for len(piece) > 0 {
				n := copy(e.Space(), piece)
				e.Filled(n)
				piece = piece[n:]
			}
		} else if d, ok := e.SingleEvent(piece); ok {
			data = append(data, string(d))
		} else {
			e.Attach(piece)
		}
		for d, ok := e.Next(); ok; d, ok = e.Next() {
			data = append(data, string(d))
		}
		e.Detach()
		copy(piece, strings.Repeat("?", len(piece)))
		if e.Err != nil {
			return data, e.Err
		}
	}
	if d, ok := e.Last(); ok {
		data = append(data, string(d))
	}
	return data, e.Err
}

// eventOracle parses a whole stream as the standard describes it, with the deviations of events: the end of the stream
// ends an event, and lines that are no part of an event are refused.
func eventOracle(stream string) (data []string, valid bool) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	var lines []string
	flush := func() {
		if d := strings.Join(lines, "\n"); d != "" {
			data = append(data, d)
		}
		lines = nil
	}
	for line := range strings.SplitSeq(stream, "\n") {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case line == "":
			flush()
		case name == "data":
			lines = append(lines, strings.TrimPrefix(value, " "))
		case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "":
			return data, false
		}
	}
	flush()
	return data, true
}

var eventStreams = []string{
	"data: a\n\ndata: b\n\n",
	"data:a\r\n\r\ndata:  b\r\n\r\n",
	"data: a\r\rdata: b\r\r",
	"data: a\r\n\ndata: b\n\r\n",
	": comment\n\ndata: a\n: another\n\n",
	"data: one\ndata: two\ndata\ndata:\ndata: five\n\ndata: b\n\n",
	"event: x\nid: 7\nretry: 3\nunknown: field\nunknown\ndata: a\n\n",
	"data: [DONE]",
	"data: a\ndata: b",
	"data: a\n",
	"data:\n\ndata\n\n\n\n\ndata: a\n\n",
	"\ufeffdata: a\n\n\ufeffdata: b\n\n",
	"<html>\n<body>data: a\n\n",
	"{\"error\":{\"message\":\"x\"}}\n",
	"",
}

func checkEvents(t *testing.T, stream []byte, cuts ...int) {
	t.Helper()
	want, valid := eventOracle(string(stream))
	got, err := readEvents(stream, cuts...)
	if (err == nil) != valid {
		t.Fatalf("%q cut at %v: error %v, sound %v", stream, cuts, err, valid)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q cut at %v:\n got %q\nwant %q", stream, cuts, got, want)
	}
	for copied := range 4 {
		lent, err := readLent(stream, copied, cuts...)
		if (err == nil) != valid || !slices.Equal(lent, want) {
			t.Fatalf("%q lent, cut at %v: %v\n got %q\nwant %q", stream, cuts, err, lent, want)
		}
	}
}

func TestEventsCutAnywhere(t *testing.T) {
	for _, s := range eventStreams {
		every := make([]int, len(s))
		for i := range s {
			every[i] = i
			checkEvents(t, []byte(s), i)
			for j := i; j < len(s); j++ {
				checkEvents(t, []byte(s), i, j)
			}
		}
		checkEvents(t, []byte(s), every...)
	}
}

func TestEventIsReturnedWithItsLastByte(t *testing.T) {
	for _, s := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r"} {
		var e eventReader
		e.Reset(api.ServerSentEvents)
		for i := range s {
			e.Space()[0] = s[i]
			e.Filled(1)
			if _, ok := e.Next(); ok != (i == len(s)-1) {
				t.Errorf("%q: event after byte %d: %v", s, i, ok)
			}
		}
	}
}

func TestLongEvents(t *testing.T) {
	long := strings.Repeat("x", frameLimit-100)
	for name, tt := range map[string]struct {
		stream string
		valid  bool
	}{
		"just short enough": {"data: " + long + "\n\ndata: b\n\n", true},
		"endless line":      {"data: " + long + long, false},
		"endless lines":     {strings.Repeat("data: "+long[:1000]+"\n", 2000), false},
		"endless comment":   {":" + long + long, false},
		"many short":        {strings.Repeat("data: a\n\n", 300_000), true},
	} {
		data, err := readEvents([]byte(tt.stream))
		if (err == nil) != tt.valid {
			t.Errorf("%s: error %v", name, err)
		}
		if want, _ := eventOracle(tt.stream); tt.valid && !slices.Equal(data, want) {
			t.Errorf("%s: %d events", name, len(data))
		}
	}
}

func TestEventNamedError(t *testing.T) {
	var e eventReader
	e.Reset(api.ServerSentEvents)
	e.Filled(copy(e.Space(), "event: error\ndata: a\n\ndata: b\n\nevent: error\n\ndata: c\n\n"))
	for _, want := range []bool{true, false, false} {
		if d, ok := e.Next(); !ok || e.Failed != want {
			t.Errorf("%q: failed %v, want %v", d, e.Failed, want)
		}
	}
}

func FuzzSSE(f *testing.F) {
	for _, s := range eventStreams {
		f.Add([]byte(s), uint16(1), uint16(7))
	}
	f.Fuzz(func(t *testing.T, stream []byte, first, step uint16) {
		if len(stream) > frameLimit {
			return
		}
		var cuts []int
		for i := int(first); i < len(stream); i += 1 + int(step) {
			cuts = append(cuts, i)
		}
		checkEvents(t, stream, cuts...)
	})
}

func BenchmarkEvents(b *testing.B) {
	stream := []byte(strings.Repeat(`data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}`+"\n\n", 4))
	if len(stream) > initialSpace || bytes.Count(stream, []byte("\n\n")) != 4 {
		b.Fatal("frames do not fit")
	}
	var e eventReader
	e.Reset(api.ServerSentEvents)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		e.Filled(copy(e.Space(), stream))
		for _, ok := e.Next(); ok; _, ok = e.Next() {
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}
