package programs

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/process"
)

// Simulation is a running `spate simulate`.
type Simulation struct {
	*process.Process
	URLs      []string
	TruthFile string // what was sent when

	t *testing.T
}

// Simulate starts a simulator with that many endpoints on free ports.
func Simulate(t *testing.T, endpoints int, args ...string) Simulation {
	t.Helper()
	truth := filepath.Join(t.TempDir(), "truth.jsonl")
	args = append([]string{"simulate", "--truth-file", truth}, args...)
	for range endpoints {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	p := process.Start(t, Built.Spate, args...)
	return Simulation{p, strings.Split(p.Await(`Serving (\S.*);`)[1], ", "), truth, t}
}

// Truth is a line of the truth file, about one request. Instants are on this machine's monotonic clock.
type Truth struct {
	RequestID    string  `json:"request_id"`
	PromptTokens uint64  `json:"prompt_tokens"`
	OutputTokens uint64  `json:"output_tokens"`
	ReceivedNs   int64   `json:"received_ns"`
	FirstTokenNs int64   `json:"first_token_ns"`
	LastTokenNs  int64   `json:"last_token_ns"`
	TokensNs     []int64 `json:"tokens_ns"` // with --truth-tokens
	Fault        string  `json:"fault"`
}

// Records reads what the simulator sent.
func (s Simulation) Records() []Truth {
	s.t.Helper()
	var records []Truth
	EachLine(s.t, s.TruthFile, func(r Truth) { records = append(records, r) })
	return records
}

// ClosedPort returns the URL of a loopback port on which nothing listens until the test ends.
func ClosedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	// The client's own port is taken, and nothing listens on it.
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return "http://" + client.LocalAddr().String()
}

// Metrics reads the simulator's own metrics.
func (s Simulation) Metrics() string {
	s.t.Helper()
	_, body := Get(s.t, s.URLs[0]+"/metrics")
	return body
}

// Get requests a URL. It keeps no connection.
func Get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
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
	return response.StatusCode, string(text)
}

// Answers returns how many requests the simulator has served.
func (s Simulation) Answers() int {
	s.t.Helper()
	data, err := os.ReadFile(s.TruthFile)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

// AwaitAnswers waits until the simulator has served that many requests.
func (s Simulation) AwaitAnswers(n int) {
	s.t.Helper()
	process.Eventually(s.t, fmt.Sprintf("%d requests are served", n), func() bool { return s.Answers() >= n })
}
