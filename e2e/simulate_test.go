package e2e

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/rundir"
)

// simulation is a running `spate simulate`.
type simulation struct {
	*process.Process
	t     *testing.T
	urls  []string
	truth string // file of what was sent when
}

// simulate starts a simulator with that many endpoints on free ports.
func simulate(t *testing.T, endpoints int, args ...string) simulation {
	t.Helper()
	truth := filepath.Join(t.TempDir(), "truth.jsonl")
	args = append([]string{"simulate", "--truth-file", truth}, args...)
	for range endpoints {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	p := process.Start(t, programs.Spate, args...)
	return simulation{p, t, strings.Split(p.Await(`Serving (\S.*);`)[1], ", "), truth}
}

// truthRecord is a line of the truth file. Instants are on this machine's monotonic clock.
type truthRecord struct {
	RequestID    string `json:"request_id"`
	PromptTokens uint64 `json:"prompt_tokens"`
	OutputTokens uint64 `json:"output_tokens"`
	ReceivedNs   int64  `json:"received_ns"`
	FirstTokenNs int64  `json:"first_token_ns"`
	LastTokenNs  int64  `json:"last_token_ns"`
	Fault        string `json:"fault"`
}

// records reads what the simulator sent.
func (s simulation) records() []truthRecord {
	s.t.Helper()
	var records []truthRecord
	rundir.EachLine(s.t, s.truth, func(r truthRecord) { records = append(records, r) })
	return records
}

// closedPort returns the URL of a loopback port without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

// metrics reads the simulator's own metrics.
func metrics(t *testing.T, s simulation) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.urls[0]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
