package regions

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/internal/netlab"
)

// running is a `spate run` and the run directory it makes.
type running struct {
	*process
	dir string
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

// mustBeComplete fails the test unless nothing is missing, and returns the result.
func (r running) mustBeComplete() aggregate.Result {
	r.t.Helper()
	result := r.results()
	if !result.Run.Complete || len(result.Run.Missing) > 0 || *result.Run.Outcome != "done" {
		r.t.Errorf("run: %s, missing %q", *result.Run.Outcome, result.Run.Missing)
	}
	return result
}

// row is a line of requests.jsonl, as docs/results.md describes it.
type row struct {
	Stage       uint32  `json:"stage"`
	Index       uint64  `json:"index"`
	Agent       string  `json:"agent"`
	Observer    bool    `json:"observer"`
	ScheduledNs int64   `json:"scheduled_ns"`
	StartNs     int64   `json:"start_ns"`
	ErrorClass  *string `json:"error_class"`
	Cancelled   bool    `json:"cancelled"`
}

// rows reads requests.jsonl.
func (r running) rows() []row {
	r.t.Helper()
	var rows []row
	eachLine(r.t, filepath.Join(r.dir, "requests.jsonl"), func(one row) { rows = append(rows, one) })
	return rows
}

// server is a simulator on a host.
type server struct {
	*process
	host  *netlab.Host
	url   string
	truth string // file of what was sent when
}

// served is a line of the truth file. The instant is of this machine's monotonic clock.
type served struct {
	RequestID  string `json:"request_id"`
	ReceivedNs int64  `json:"received_ns"`
}

// records reads what the simulator served.
func (s server) records() []served {
	s.t.Helper()
	var records []served
	eachLine(s.t, s.truth, func(r served) { records = append(records, r) })
	return records
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
