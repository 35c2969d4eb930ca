package dataset

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// fuzzed builds arbitrary input: it gets an error, or a file whose rows can all be read and ask for something that can
// be sent.
func fuzzed(f *testing.F, workloads []*spatev1.Workload, fixtures []string, seeds ...string) {
	for _, name := range fixtures {
		text, err := os.ReadFile(sourceFile(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 2000)])
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		for _, w := range workloads {
			for _, count := range []func(string) int{nil, countWords} {
				buildOnce(t, w, source, count)
			}
		}
	})
}

// buildOnce builds a source and reads all of its rows.
func buildOnce(t *testing.T, w *spatev1.Workload, source []byte, count func(string) int) {
	var out bytes.Buffer
	d, skipped, err := Build(t.Context(), &out, bytes.NewReader(source), w, Options{Count: count})
	if err != nil {
		return
	}
	if n := len(skipped.First); d.GetSkipped() != skipped.Unusable+skipped.Excluded ||
		n > int(min(skipped.Unusable, maxNamed)) || n == 0 && skipped.Unusable > 0 {
		t.Fatalf("%v, but %+v", d, skipped)
	}
	r, err := rows.New(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || r.Len() != d.GetRows() {
		t.Fatalf("%v: %v", d, err)
	}
	var row rows.Row
	for i := range r.Len() {
		before := row.At
		if err := r.Read(i, &row); err != nil {
			t.Fatal(err)
		}
		checkRow(t, i, &row, before, r.BlockTokens())
	}
}

// checkRow checks what workloads rely on.
func checkRow(t *testing.T, i uint64, row *rows.Row, before time.Duration, block uint32) {
	if row.OSL == 0 || row.OSL > maxLength || row.ISL > maxLength || row.Shared > row.ISL ||
		row.TurnCount == 0 || row.At < before {
		t.Fatalf("row %d is %+v", i, row)
	}
	switch row.Kind {
	case rows.Text:
		checkInside(t, row.Content)
	case rows.Messages, rows.MessagesWithFields:
		if !json.Valid(slices.Concat([]byte{'{'}, row.Fields, []byte{'}'})) {
			t.Fatalf("%s are not members of an object", row.Fields)
		}
		if with := slices.Insert(bytes.Clone(row.Content), row.Insert, []byte("word ")...); !json.Valid(row.Content) ||
			!json.Valid(with) {
			t.Fatalf("%s is not JSON, or not with a word at %d", row.Content, row.Insert)
		}
	case rows.TokenIDs:
		if len(row.IDs) != int(row.ISL) {
			t.Fatalf("%d ids, ISL %d", len(row.IDs), row.ISL)
		}
	case rows.Blocks:
		if n := uint64(len(row.Blocks)) * uint64(block); n < uint64(row.ISL) || n-uint64(row.ISL) >= uint64(block) {
			t.Fatalf("%d blocks of %d for %d tokens", len(row.Blocks), block, row.ISL)
		}
	case rows.Session:
		checkInside(t, row.Content)
		for _, turn := range row.Turns {
			checkInside(t, turn.User)
			checkInside(t, turn.Answer)
			if turn.OSL == 0 || turn.OSL > maxLength {
				t.Fatalf("a turn asks for %d tokens", turn.OSL)
			}
		}
	}
}

// checkInside checks that a text can stand between the quotes of a JSON string.
func checkInside(t *testing.T, text []byte) {
	if !json.Valid(slices.Concat([]byte{'"'}, text, []byte{'"'})) {
		t.Fatalf("%q is not the inside of a JSON string", text)
	}
}

func FuzzShareGPT(f *testing.F) {
	every := 1.0
	fuzzed(f, []*spatev1.Workload{
		sharegptOf(&spatev1.FileContent{MaxSkipped: &every}),
		sharegptOf(&spatev1.FileContent{MaxSkipped: &every, Sessions: &spatev1.SessionPlay{}}),
	}, []string{"sharegpt.json"},
		`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`)
}

func FuzzJSONL(f *testing.F) {
	every := 1.0
	fuzzed(f, []*spatev1.Workload{
		jsonlOf(&spatev1.FileContent{MaxSkipped: &every}),
		jsonlOf(&spatev1.FileContent{MaxSkipped: &every, Sessions: &spatev1.SessionPlay{}}),
	}, []string{"prompts.jsonl"}, `[{"prompt": "x"}, 5, {"prompt`, "\ufeff{}\r\n",
		`{"messages": [{"content": "a"}], "tools": [1 ], "tool_choice": {"a": "b"}, "tools": 2}`, gzipped(`{"prompt": "x"}`),
		zstded(`{"prompt": "x"}`))
}

func FuzzMooncake(f *testing.F) {
	every := 1.0
	fuzzed(f, []*spatev1.Workload{
		mooncakeOf(&spatev1.TraceContent{MaxSkipped: &every}),
		mooncakeOf(&spatev1.TraceContent{MaxSkipped: &every, BlockTokens: 1}),
		bailianOf(&spatev1.TraceContent{MaxSkipped: &every}),
	}, []string{mooncakeTrace, "mooncake-trace.jsonl", "bailian.jsonl"},
		`{"timestamp":-1e15,"input_length":1,"output_length":1,"hash_ids":[18446744073709551615]}`)
}

func FuzzBurstGPT(f *testing.F) {
	every := 1.0
	fuzzed(f, []*spatev1.Workload{burstgptOf(&spatev1.TraceContent{MaxSkipped: &every})},
		[]string{"burstgpt.csv", "burstgpt-sessions.csv"})
}

func FuzzAzure(f *testing.F) {
	every := 1.0
	fuzzed(f, []*spatev1.Workload{azureOf(&spatev1.TraceContent{MaxSkipped: &every})},
		[]string{"azure-2023.csv", "azure-2024.csv"})
}

func FuzzSonnet(f *testing.F) {
	fuzzed(f, []*spatev1.Workload{sonnetOf(&spatev1.SonnetContent{Isl: 9, Osl: 9})}, []string{"poem.txt"},
		"\x00\"\\\u2028")
}
