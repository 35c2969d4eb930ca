package dataset

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// Traces of agents that AIPerf 0.13 replays. Its models of Weka's and TraceLab's rows accept these files. Shown are,
// for each session, its start and its requests: what they wait for, their delay or time, and how much of the prompt an
// earlier one began with. A prompt that no session continues is a session by itself.
func TestAgentTraces(t *testing.T) {
	weka, tracelab := file(t, "weka.jsonl"), file(t, "tracelab.jsonl")
	baseten := new(bytes.Buffer)
	type row struct {
		Start   int64   `parquet:"timestamp_start_unix_ms"`
		Prompt  string  `parquet:"prompt"`
		Input   int64   `parquet:"input_tokens"`
		Output  int64   `parquet:"output_tokens"`
		Hashes  []int64 `parquet:"total_hashes,list"`
		Session string  `parquet:"provided_session_id"`
	}
	if err := parquet.Write(baseten, []row{{1767225600000, "Say a.", 3, 7, []int64{5}, "s"},
		{1767225600900, "Say a. a Say b.", 6, 9, []int64{5, 6}, "s"}}); err != nil {
		t.Fatal(err)
	}
	sessions := &spatev1.SessionPlay{History: "none"}
	for name, c := range map[string]struct {
		source string
		trace  *spatev1.TraceContent
		want   string
	}{
		"Weka": {weka, &spatev1.TraceContent{BlockTokens: 64},
			"0s 200:10~0; 1s 64:3~0; 2.5s 128:5~64; 4s 192:1~128; 6s 256:20~192; "},
		"Weka's sessions": {weka, &spatev1.TraceContent{BlockTokens: 64, Sessions: sessions},
			"0s [] 200:10~0 [0]+1s 128:5~64 [1]+500ms 192:1~128 [0 2]+1s 256:20~192; 1s 64:3~0; "},
		"TraceLab": {tracelab, &spatev1.TraceContent{BlockTokens: 64},
			"0s 200:30~0; 1s 64:1~0; 6s 330:20~192; "},
		"TraceLab's sessions": {tracelab, &spatev1.TraceContent{BlockTokens: 64, Sessions: sessions},
			"0s [] 200:30~0 [0]@6s 330:20~192; 1s 64:1~0; "},
		"Baseten": {baseten.String(), &spatev1.TraceContent{}, "0s 0:7~0; 900ms 0:9~0; "},
		"Baseten's sessions": {baseten.String(), &spatev1.TraceContent{Sessions: sessions},
			"0s [] 0:7~0 [0]@900ms 0:9~0; "},
	} {
		var out bytes.Buffer
		source := bytes.NewReader([]byte(c.source))
		_, skipped, err := Build(context.Background(), &out, source, mooncakeOf(c.trace), Options{})
		if err != nil || skipped.Unusable+skipped.Excluded > 0 {
			t.Errorf("%s: %v, %v", name, skipped, err)
			continue
		}
		r, err := rows.New(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, row := range rowsOf(t, r) {
			fmt.Fprint(&got, row.At)
			if len(row.Steps) < 2 {
				fmt.Fprintf(&got, " %d:%d~%d", row.ISL, row.OSL, row.Shared)
			}
			for _, s := range row.Steps {
				if len(row.Steps) < 2 {
					break
				}
				fmt.Fprintf(&got, " %v", s.After)
				if s.Delay > 0 {
					fmt.Fprintf(&got, "+%v", s.Delay)
				}
				if s.At > 0 {
					fmt.Fprintf(&got, "@%v", s.At)
				}
				fmt.Fprintf(&got, " %d:%d~%d", s.ISL, s.OSL, s.Shared)
			}
			got.WriteString("; ")
		}
		if got.String() != c.want {
			t.Errorf("%s:\n%s\n%s", name, got.String(), c.want)
		}
	}
}

// A trace that cannot be read is named with its line and what to do.
func TestUnusableAgentTraces(t *testing.T) {
	for source, want := range map[string]string{
		file(t, "weka.jsonl"):                                                  "line 1 has a block_size of 64: set block_tokens: 64",
		`{"requests": [1], "block_size": 512}`:                                 "line 1 is not a trace in Weka's form",
		`{"requests": [{"in": 99999999}], "block_size": 512}`:                  "input_length is 99999999: it must be at most",
		`{"newly_append_tokens": 1, "timing_events": []}`:                      "line 1 has no timing_events",
		`{"newly_append_tokens": 1, "session_id": 1}`:                          "line 1 is not a round in TraceLab's form",
		`{"newly_append_tokens": 1, "timing_events": [{"timestamp": "then"}]}`: `line 1 timestamp is "then", not a time`,
	} {
		_, _, err := Build(context.Background(), new(bytes.Buffer), strings.NewReader(source),
			mooncakeOf(&spatev1.TraceContent{}), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
