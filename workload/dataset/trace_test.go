package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestTimeSorterOracle: rows that are out of order by less than the sorter holds are emitted in the order of a stable
// sort. Otherwise the error names the late row.
func TestTimeSorterOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(-20, 20), 1, 40).Draw(t, "times")
		room := rapid.IntRange(1, 50).Draw(t, "room")
		var got []timedRow
		s := newTimeSorter(room*timedRow{}.bytes(), "line")
		s.emit = func(row timedRow, at time.Duration) error {
			got = append(got, timedRow{at: row.at, number: row.number})
			return nil
		}
		var rows []timedRow
		var err error
		late := false
		for i, at := range times {
			row := timedRow{at: at, number: uint64(i)}
			rows = append(rows, row)
			behind := 0 // earlier rows in the file with a later time
			for _, other := range times[:i] {
				if other > at {
					behind++
				}
			}
			late = late || behind > room
			if err = s.add(row); err != nil {
				break
			}
		}
		if err == nil {
			err = s.flush()
		}
		if err != nil {
			if !late || !strings.Contains(err.Error(), "sort the file") {
				t.Fatalf("%v with room for %d: %v", times, room, err)
			}
			return
		}
		slices.SortStableFunc(rows, func(a, b timedRow) int { return cmp.Compare(a.at, b.at) })
		if !slices.EqualFunc(got, rows, func(a, b timedRow) bool { return a.at == b.at && a.number == b.number }) {
			t.Fatalf("%v, want %v", got, rows)
		}
	})
}

// TestOutOfOrder: a trace that is out of order is sorted, and reported as such. Its sharing is that of the sorted
// trace.
func TestOutOfOrder(t *testing.T) {
	text := file(t, mooncakeTrace)
	w := mooncakeOf(&spatev1.TraceContent{})
	want, _, _ := built(t, w, text, Options{})
	all := strings.Split(strings.TrimSpace(text), "\n")
	all = append(all[500:], all[:500]...)
	got, skipped, _ := built(t, w, strings.Join(all, "\n"), Options{})
	if got.GetSha256() != want.GetSha256() || skipped.Reordered != 500 {
		t.Errorf("%v, want %v; %d reordered", got, want, skipped.Reordered)
	}
}

// TestTooFarOutOfOrder: the error names a row that comes too late to be sorted.
func TestTooFarOutOfOrder(t *testing.T) {
	var text strings.Builder
	text.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
	rows := sorterBytes/timedRow{}.bytes() + 10
	for i := range rows {
		at := time.Date(2024, 5, 10, 0, 0, i, 0, time.UTC)
		fmt.Fprintf(&text, "%s,10,10\n", at.Format("2006-01-02 15:04:05"))
	}
	text.WriteString("2024-05-10 00:00:00.5,10,10\n")
	got := refused(t, azureOf(&spatev1.TraceContent{}), text.String())
	for _, part := range []string{fmt.Sprintf("line %d is ", rows+2), "s earlier than line ", "sort the file"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q does not say %q", got, part)
		}
	}
}

// TestSharingIsRealistic: the fixture shares about as much as chats with history.
func TestSharingIsRealistic(t *testing.T) {
	_, _, r := built(t, mooncakeOf(&spatev1.TraceContent{}), file(t, mooncakeTrace), Options{})
	prompt, shared := uint64(0), uint64(0)
	for _, row := range rowsOf(t, r) {
		prompt, shared = prompt+uint64(row.ISL), shared+uint64(row.Shared)
	}
	if share := float64(shared) / float64(prompt); share < 0.4 || share > 0.9 {
		t.Errorf("%.2f of the prompt tokens are shared", share)
	}
}

// TestTracesWithoutTimes: a trace without times has its rows in the order of the file, and no span; if only some rows
// have one, the first row decides which are unusable.
func TestTracesWithoutTimes(t *testing.T) {
	half := 0.5
	w := mooncakeOf(&spatev1.TraceContent{MaxSkipped: &half})
	d, _, r := built(t, w, `{"text_input": "b", "output_length": 2}
{"text_input": "a", "output_length": 1}`, Options{})
	if got := rowsOf(t, r); len(got) != 2 || string(got[0].Content) != "b" || got[1].OSL != 1 || d.GetSpan() != nil {
		t.Errorf("%v of %v", got, d)
	}
	for second, reason := range map[string]string{
		`{"text_input": "b"}`:                 "",
		`{"timestamp": 3, "text_input": "b"}`: "line 2 has a timestamp, and the first row has none",
	} {
		_, skipped, _ := built(t, w, `{"text_input": "a"}`+"\n"+second, Options{})
		if skipped.String() != reason {
			t.Errorf("%s: %v", second, skipped)
		}
	}
}

// TestSeconds: a trace whose form has milliseconds is read as seconds where the numbers can be nothing else.
func TestSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		times   []string
		span    time.Duration
		seconds bool
	}{
		"seconds": {[]string{"0.0", "0.2", "0.9"}, 900 * time.Millisecond, true},
		// 400 requests a second
		"milliseconds":       {[]string{"0.0", "2.5", "5.0"}, 5 * time.Millisecond, false},
		"whole milliseconds": {[]string{"0", "0", "1"}, time.Millisecond, false},
		"at once":            {[]string{"0.5", "0.5", "0.5"}, 0, false},
	} {
		for _, sessions := range []*spatev1.SessionPlay{nil, {}} {
			var trace strings.Builder
			for _, at := range c.times {
				fmt.Fprintf(&trace, "{\"timestamp\": %s, \"input_length\": 100, \"output_length\": 10}\n", at)
			}
			d, skipped, _ := built(t, mooncakeOf(&spatev1.TraceContent{Sessions: sessions}), trace.String(), Options{})
			if d.GetSpan().AsDuration() != c.span || skipped.Seconds != c.seconds {
				t.Errorf("%s: over %v, seconds %v", name, d.GetSpan().AsDuration(), skipped.Seconds)
			}
		}
	}
}

// TestFlatSpans: spans with attributes in an object and times in texts, as inference-perf records them.
func TestFlatSpans(t *testing.T) {
	const span = `{"trace_id": "t", "span_id": "s%d", "parent_span_id": null, "start_time": "2026-02-25T10:00:0%d.000000",
		"end_time": "2026-02-25T10:00:0%d.500000", "attributes": {"gen_ai.operation.name": "chat",
		"gen_ai.request.max_tokens": 20, "gen_ai.input.messages": "[{\"role\": \"user\", \"content\": \"Why?\"}]"}}`
	const messages = `[{"content":"Why?","role":"user"}]`
	_, skipped, r := built(t, otelOf(&spatev1.TraceContent{}),
		`{"trace_id": "t", "spans": [`+fmt.Sprintf(span, 0, 0, 0)+`, `+fmt.Sprintf(span, 1, 2, 2)+`]}`, Options{})
	if shape := shapeOf(t, r); shape != strings.ReplaceAll("0s: 0=0:20M\n2s: 0=0:20M\n", "M", messages) || skipped.Unusable > 0 {
		t.Errorf("%s, %+v", shape, skipped)
	}
}
