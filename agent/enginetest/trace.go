package enginetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/dataset"
	"github.com/spate-load/spate/workload/store"
)

// TraceStage returns a stage that replays a trace of n rows, 10 ms apart, and the directory with its dataset.
func TraceStage(t testing.TB, n int, speed float64, engines ...*Engine) (stage *spatev1.Stage, dir string) {
	t.Helper()
	var trace strings.Builder
	for i := range n {
		fmt.Fprintf(&trace, `{"timestamp": %d, "input_length": 6, "output_length": 2, "hash_ids": [%d]}`+"\n", 10*i, i)
	}
	return StageOfTrace(t, trace.String(), n, speed, engines...)
}

// StageOfTrace returns a stage that replays a trace of n rows in Mooncake's form, and the directory with its dataset.
func StageOfTrace(
	t testing.TB, trace string, n int, speed float64, engines ...*Engine,
) (stage *spatev1.Stage, dir string) {
	t.Helper()
	return stageOfTrace(t, trace, n, speed, nil, engines...)
}

// StageOfSessions returns a stage of chats that replays a trace of n sessions, and the directory with its dataset.
func StageOfSessions(
	t testing.TB, trace string, n int, play *spatev1.SessionPlay, engines ...*Engine,
) (stage *spatev1.Stage, dir string) {
	t.Helper()
	stage, dir = stageOfTrace(t, trace, n, 1, play, engines...)
	stage.Target.Api = "chat"
	return stage, dir
}

func stageOfTrace(
	t testing.TB, trace string, n int, speed float64, play *spatev1.SessionPlay, engines ...*Engine,
) (stage *spatev1.Stage, dir string) {
	t.Helper()
	w := &spatev1.Workload{Name: "trace", Content: &spatev1.Workload_Mooncake{
		Mooncake: &spatev1.TraceContent{Path: "trace.jsonl", Sessions: play}}}
	var rows bytes.Buffer
	ds, _, err := dataset.Build(t.Context(), &rows, strings.NewReader(trace), w,
		dataset.Options{Name: "trace.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	sum := sha256.Sum256(rows.Bytes())
	if hash := hex.EncodeToString(sum[:]); hash != ds.GetSha256() {
		t.Fatalf("the rows have the hash %s, not %s", hash, ds.GetSha256())
	}
	if err := os.WriteFile(RowsFile(t, dir, ds), rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	stage = StageOf(&spatev1.LoadPoint{Arrival: "trace", ReplaySpeed: speed, Requests: uint64(n)}, engines...)
	stage.Workload, stage.Dataset = w, ds
	return stage, dir
}

// RowsFile returns the path of a dataset in a directory.
func RowsFile(t testing.TB, dir string, ds *spatev1.Dataset) string {
	t.Helper()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	path, _, err := s.Path(ds.GetSha256(), ds.GetSize())
	if err != nil {
		t.Fatal(err)
	}
	return path
}
