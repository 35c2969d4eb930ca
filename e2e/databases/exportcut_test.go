package databases

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/servertest"
)

// front is an InfluxDB behind a proxy. Something happens to the second request with points.
type front struct {
	flags []string
	// struck is closed when the second request with points has arrived. It is answered when answer is closed, or when
	// its client has disconnected.
	struck, answer chan struct{}
	writes         atomic.Int32
}

// inFrontOf starts a proxy, which runs until the test ends.
func inFrontOf(t *testing.T, db *servertest.Influx) *front {
	t.Helper()
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{struck: make(chan struct{}), answer: make(chan struct{})}
	proxy := httputil.NewSingleHostReverseProxy(u)
	transport := &http.Transport{DisableKeepAlives: true}
	proxy.Transport, proxy.ErrorHandler = transport,
		func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if hasPoints(q) && f.writes.Add(1) == 2 {
			close(f.struck)
			select {
			case <-f.answer:
			case <-q.Context().Done():
			}
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	f.flags = []string{"--sink", db.Sink(server.URL, db.Database)}
	return f
}

// hasPoints reports whether a request writes points, and leaves its body intact. Spate compresses points.
func hasPoints(q *http.Request) bool {
	packed, _ := io.ReadAll(q.Body) // a truncated body fails behind the proxy
	q.Body = io.NopCloser(bytes.NewReader(packed))
	body, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return false
	}
	lines, _ := io.ReadAll(body)
	return strings.HasPrefix(string(lines), "spate_")
}

// startExport starts `spate runs export` through a proxy, waits for its second request with points, and returns both.
func startExport(t *testing.T, dir string, db *servertest.Influx, args ...string) (*process.Process, *front) {
	t.Helper()
	f := inFrontOf(t, db)
	p := process.Start(t, programs.Built.Spate, append(append([]string{"runs", "export", dir}, f.flags...), args...)...)
	select {
	case <-f.struck:
	case <-p.Ended():
		t.Fatal("spate runs export has ended before its second request with points")
	}
	return p, f
}

// cutPlan is short, and has more points than fit into one request.
const cutPlan = `
name: cut
targets:
  - name: server
    simulator: {endpoints: 64, decode_step: 2ms}
workloads:
  - random: {isl: 20, osl: 4}
loads:
  - concurrency: [128]
    duration: 6s
`

// An export that is interrupted, or whose server dies, ends, says how far it got and what to do, and is complete when
// it is run again.
func TestExportCutShort(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, cutPlan, "--agents", "1")
	r.MustExit(0)
	db := servertest.StartInflux(t, servertest.InfluxOptions{})
	export(t, r.Dir, db, 0)
	want := all(t, db)
	again := func() {
		t.Helper()
		db.Drop()
		db.Create(0)
	}
	const how = "run the command again "

	again()
	p, _ := startExport(t, r.Dir, db)
	p.Signal(syscall.SIGINT)
	mustEnd(t, p, 4, "interrupted after ", how+"to write the rest")
	export(t, r.Dir, db, 0)
	mustEqual(t, "exported after an interruption", all(t, db), want)

	again()
	p, f := startExport(t, r.Dir, db, "--patience", "500ms")
	db.Kill()
	close(f.answer)
	mustEnd(t, p, 1, "stopped after ", "answers 502", how+"when this is fixed")
	db.Restart()
	export(t, r.Dir, db, 0)
	mustEqual(t, "exported after the server's death", all(t, db), want)

	again()
	p, f = startExport(t, r.Dir, db)
	db.Kill()
	close(f.answer)
	p.Await("the database cannot be written to; trying again")
	db.Restart()
	mustEnd(t, p, 0, " points of run ")
	mustEqual(t, "exported through a new start of the server", all(t, db), want)
}

// mustEnd fails the test unless a process that wrote some points ends with the exit code and has printed all words.
func mustEnd(t *testing.T, p *process.Process, code int, words ...string) {
	t.Helper()
	if got := p.Exit(); got != code {
		t.Fatalf("spate runs export exits with %d, want %d", got, code)
	}
	said := p.Stdout.String() + p.Stderr.String()
	for _, word := range append(words, " points") {
		if !strings.Contains(said, word) {
			t.Errorf("nothing says %q", word)
		}
	}
	if strings.Contains(said, " after 0 points") {
		t.Errorf("what the first request wrote is not counted")
	}
}
