package programs

// This file reads the run directories of `spate run`. It follows the description in docs/results.md and does not use the
// code that writes the files.

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
)

// Result reads results.json of a run directory.
func Result(tb testing.TB, dir string) (result results.Result) {
	tb.Helper()
	if err := json.Unmarshal([]byte(Text(tb, dir, "results.json")), &result); err != nil {
		tb.Fatal(err)
	}
	return result
}

// Text reads a file of a run directory.
func Text(tb testing.TB, dir, name string) string {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// Row is a line of requests.jsonl, as docs/results.md describes it.
type Row struct {
	Stage        uint32  `json:"stage"`
	Index        uint64  `json:"index"`
	Agent        string  `json:"agent"`
	Endpoint     uint32  `json:"endpoint"`
	Unmeasured   bool    `json:"unmeasured"`
	ScheduledNs  int64   `json:"scheduled_ns"`
	HeldNs       *int64  `json:"held_ns"`
	StartNs      int64   `json:"start_ns"`
	FirstChunkNs *int64  `json:"first_chunk_ns"`
	LastChunkNs  *int64  `json:"last_chunk_ns"`
	FirstTextNs  *int64  `json:"first_text_ns"`
	FirstTokenNs *int64  `json:"first_token_ns"`
	LastTokenNs  *int64  `json:"last_token_ns"`
	EndNs        int64   `json:"end_ns"`
	ConnectNs    *int64  `json:"connect_ns"`
	TCPNs        *int64  `json:"tcp_ns"`
	ITLNs        []int64 `json:"itl_ns"`
	InputTokens  *uint64 `json:"input_tokens"`
	OutputTokens *uint64 `json:"output_tokens"`
	TokenFrames  int     `json:"token_frames"`
	ErrorClass   *string `json:"error_class"`
	Error        *string `json:"error"`
	Cancelled    bool    `json:"cancelled"`
	BodyHash     string  `json:"body_hash"`
	Part         *string `json:"part"`
	Model        *string `json:"model"`
	Chunks       int     `json:"chunks"`
	TextBytes    int     `json:"text_bytes"`
	Turn         uint32  `json:"turn"`
	ISLAsked     uint64  `json:"isl_asked"`
	OSLAsked     uint64  `json:"osl_asked"`
	CachedTokens *uint64 `json:"cached_tokens"`
	SharedTokens uint64  `json:"shared_tokens"`
	ToolCalls    *uint64 `json:"tool_calls"`
	ValidCalls   *uint64 `json:"valid_tool_calls"`
	Texts        *uint32 `json:"texts"`
	Garbled      bool    `json:"garbled"`
	ValidAnswer  *bool   `json:"valid_answer"`
}

// Completed reports whether the request completed.
func (r Row) Completed() bool { return r.ErrorClass == nil && !r.Cancelled }

// Rows reads requests.jsonl of a run directory.
func Rows(tb testing.TB, dir string) (rows []Row) {
	tb.Helper()
	EachLine(tb, filepath.Join(dir, "requests.jsonl"), func(one Row) { rows = append(rows, one) })
	return rows
}

// EachLine reads a file with one JSON object per line.
func EachLine[T any](tb testing.TB, path string, each func(T)) {
	tb.Helper()
	file, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }() // It was only read.
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			tb.Fatalf("%s: %v in %s", path, err, lines.Text())
		}
		each(one)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
}

// Near fails the test unless a number of a result is what the rows give, but for rounding.
func Near(tb testing.TB, what string, got, want, relative float64) {
	tb.Helper()
	if !(math.Abs(got-want) <= relative*math.Abs(want)) {
		tb.Errorf("%s: %v, the rows give %v", what, got, want)
	}
}
