package runfiles

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
)

// minimal is the least content of a file of results.
const minimal = `{"run": {"id": "r", "definitions": 1}, "stages": []}`

// write writes a file in a new folder and returns the folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// parquetOf returns a Parquet file of rows.
func parquetOf(t *testing.T, rows ...row) string {
	t.Helper()
	var b bytes.Buffer
	if err := parquet.Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Rows are read without unmeasured requests.
func TestRows(t *testing.T) {
	completed := row{Stage: 1, Hash: "00000000000000ff", Request: compare.Request{Index: 4, StartNs: 5, EndNs: 9,
		ITLNs: []int64{2, 3}, OSLAsked: 7, OutputTokens: 6}}
	unmeasured, failed := completed, completed
	unmeasured.Unmeasured, failed.ErrorClass = true, new("timeout")
	f, err := Open(write(t, map[string]string{"results.json": minimal,
		"requests.parquet": parquetOf(t, completed, unmeasured, failed)}))
	if err != nil {
		t.Fatal(err)
	}
	var got []compare.Request
	err = f.Requests(1, func(r *compare.Request) error {
		got = append(got, *r)
		return nil
	})
	if err != nil || len(got) != 2 {
		t.Fatalf("%d requests, %v", len(got), err)
	}
	r := got[0]
	if r.Index != 4 || r.BodyHash != 255 || r.OutputTokens != 6 || r.OSLAsked != 7 || len(r.ITLNs) != 2 ||
		!r.Completed || r.FirstTokenNs != nil || got[1].Completed {
		t.Errorf("%+v", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// Files of other tools are runs with numbers by their names in results.json, and a load as far as the file tells it.
func TestFilesOfOtherTools(t *testing.T) {
	for name, want := range map[string]struct {
		tool, load, metric string
		value              float64
	}{"vllm.json": {"vLLM", "concurrency 4", "tpot_ms.mean", 4.004}, "guidellm.json": {"GuideLLM", "concurrency 4", "tpot_ms.mean", 4.027},
		"guidellm-warm.json": {"GuideLLM", "", "osl_tokens.mean", 38.19}, "aiperf-32.json": {"AIPerf", "", "isl_tokens.mean", 200}} {
		f, err := Open("../../audit/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		s := f.Result.Stages[0]
		got := *f.Numbers[0][want.metric]
		if f.Tool != want.tool || s.Load.Words != want.load || math.Abs(got/want.value-1) > 0.001 {
			t.Errorf("%s: %s, %q, %s %v", name, f.Tool, s.Load.Words, want.metric, got)
		}
	}
	path := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(path, []byte(`{"speed": 3, "colour": "red"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.HasSuffix(err.Error(), "; it has colour, speed") {
		t.Error(err)
	}
}

// A file that cannot be read is named, with what is wrong.
func TestUnreadable(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"is not a run directory":     {},
		"is not a file of results":   {"results.json": "{"},
		"it has no run.id":           {"results.json": "{}"},
		"not a ledger":               {"ledger.db": strings.Repeat("x", 9000)},
		`body_hash "" is not a hash`: {"results.json": minimal, "requests.parquet": parquetOf(t, row{})},
		"read request rows from ":    {"results.json": minimal, "requests.parquet": "PAR1PAR1"},
		"requests.parquet: ":         {"results.json": minimal, "requests.parquet": ""},
	} {
		f, err := Open(write(t, files))
		if err == nil {
			err = f.Requests(0, func(*compare.Request) error { return nil })
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	if _, err := Open("nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere does not exist") {
		t.Errorf("nowhere: %v", err)
	}
}

// Files of results and rows may hold anything.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(minimal), []byte("PAR1"))
	f.Add([]byte("null"), []byte("PAR1PAR1"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content, rows []byte) {
		_, _ = results.Read(content)
		path := filepath.Join(dir, "requests.parquet")
		if err := os.WriteFile(path, rows, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = readRows(path, 0, func(*compare.Request) error { return nil })
	})
}

// The rows of a stage are read from all groups that may have some, and without a value of a row before.
func TestRowsOfAStage(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "requests.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[row](file)
	const each = 3 * batch / 2
	for _, stage := range []uint32{0, 1, 1} {
		rows := make([]row, each)
		for i := range rows {
			rows[i] = row{Stage: stage, Unmeasured: i%10 == 9, Hash: "ff"}
			if rows[i].Index = uint64(i); i%2 == 0 {
				rows[i].First = new(int64(i))
			}
		}
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	read, err := rowsIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	for stage, want := range []int{each - each/10, 2 * (each - each/10), 0} {
		n := 0
		err := read(uint32(stage), func(r *compare.Request) error {
			n++
			if first := r.FirstTokenNs; r.BodyHash != 255 || (first == nil) == (r.Index%2 == 0) ||
				first != nil && *first != int64(r.Index) {
				t.Fatalf("%+v", r)
			}
			return nil
		})
		if err != nil || n != want {
			t.Errorf("stage %d: %d requests, want %d, %v", stage, n, want, err)
		}
	}
	file, err = os.Open(filepath.Join(dir, "requests.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if groups, err := groupsOf(file, 1); err != nil || len(groups) != 2 {
		t.Errorf("%d groups, want 2 of 3, %v", len(groups), err)
	}
}
