package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate"
)

// running is a `spate run` and the run directory it makes.
type running struct {
	*process
	dir string
}

// runPlan starts a run of a plan.
func runPlan(t *testing.T, plan string, args ...string) running {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	return running{start(t, programs.spate, append([]string{"run", path, "--out", dir, "--records", "jsonl"}, args...)...), dir}
}

// mustExit fails the test unless the run ends with the code.
func (r running) mustExit(code int) {
	r.t.Helper()
	if got := r.exit(); got != code {
		r.t.Fatalf("spate run exits with %d, want %d", got, code)
	}
}

// results reads results.json.
func (r running) results() aggregate.Result {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "results.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var result aggregate.Result
	if err := json.Unmarshal(data, &result); err != nil {
		r.t.Fatal(err)
	}
	return result
}

// text reads a file of the run directory.
func (r running) text(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// row is a line of requests.jsonl, as docs/results.md describes it.
type row struct {
	Stage        uint32  `json:"stage"`
	Index        uint64  `json:"index"`
	Agent        string  `json:"agent"`
	Endpoint     uint32  `json:"endpoint"`
	Unmeasured   bool    `json:"unmeasured"`
	ScheduledNs  int64   `json:"scheduled_ns"`
	StartNs      int64   `json:"start_ns"`
	FirstFrameNs *int64  `json:"first_frame_ns"`
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
	Cancelled    bool    `json:"cancelled"`
	BodyHash     string  `json:"body_hash"`
	Led          bool    `json:"led"`
	Turn         uint32  `json:"turn"`
	ISLAsked     uint64  `json:"isl_asked"`
	OSLAsked     uint64  `json:"osl_asked"`
	CachedTokens *uint64 `json:"cached_tokens"`
	SharedTokens uint64  `json:"shared_tokens"`
}

// completed says that the request ended as it should.
func (r row) completed() bool { return r.ErrorClass == nil && !r.Cancelled }

// rows reads requests.jsonl, by stage.
func (r running) rows() map[uint32][]row {
	r.t.Helper()
	rows := map[uint32][]row{}
	eachLine(r.t, filepath.Join(r.dir, "requests.jsonl"), func(one row) { rows[one.Stage] = append(rows[one.Stage], one) })
	return rows
}

// eachLine reads a file of a JSON object a line.
func eachLine[T any](t *testing.T, path string, each func(T)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v in %s", path, err, lines.Text())
		}
		each(one)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
