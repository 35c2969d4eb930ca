package regions

import (
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/netlab"
	"github.com/spate-load/spate/internal/process"
)

// running is a `spate run` and the run directory it makes.
type running struct {
	*process.Process
	t   *testing.T
	dir string
}

// results reads results.json.
func (r running) results() results.Result {
	r.t.Helper()
	return programs.Result(r.t, r.dir)
}

// mustBeComplete fails the test unless nothing is missing, and returns the result.
func (r running) mustBeComplete() results.Result {
	r.t.Helper()
	result := r.results()
	if !result.Run.Complete || len(result.Run.Missing) > 0 || *result.Run.Outcome != "done" {
		r.t.Errorf("run: %s, missing %q", *result.Run.Outcome, result.Run.Missing)
	}
	return result
}

// rows reads requests.jsonl.
func (r running) rows() []programs.Row {
	r.t.Helper()
	return programs.Rows(r.t, r.dir)
}

// server is a simulator on a host.
type server struct {
	*process.Process
	t     *testing.T
	host  *netlab.Host
	url   string
	truth string // file of what was sent when
}

// served is a line of the truth file. The instant is on this machine's monotonic clock.
type served struct {
	RequestID  string `json:"request_id"`
	ReceivedNs int64  `json:"received_ns"`
}

// records reads what the simulator served.
func (s server) records() []served {
	s.t.Helper()
	var records []served
	programs.EachLine(s.t, s.truth, func(r served) { records = append(records, r) })
	return records
}
