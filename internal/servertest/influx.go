// Package servertest runs real servers for tests, each on loopback and in its own directory: databases and a collector.
// Only tests import the package.
package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/process"
)

// Influx is one InfluxDB. Its data survive Kill. The version is 1.8, without Flux unless asked for, because Flux takes
// seconds to start. With SPATE_TEST_SERVERS=influxd2 in the environment, every test gets 2.7. `make .bin/influxd` and
// `make .bin/influxd2` build the servers.
type Influx struct {
	// URL is its base URL, the same after a restart.
	URL string
	// Database exists from the start. Its bucket has the same name.
	Database string
	// Token of the administrator. Empty: the server does not ask for one.
	Token string
	// Org that owns the bucket. Empty: the server has no organisations.
	Org string

	tb      testing.TB
	two     bool // 2.7
	flux    bool
	dir     string
	address string
	process *process.Process
}

// InfluxOptions of a server.
type InfluxOptions struct {
	// Token of the administrator, "user:password". Empty: the server does not ask for one.
	Token string
	// Flux makes the server answer Flux queries. The server then takes seconds to start.
	Flux bool
}

// StartInflux runs a server until the test ends. process.Tool says when the test is skipped.
func StartInflux(tb testing.TB, options InfluxOptions) *Influx {
	tb.Helper()
	s := &Influx{Database: "spate", Token: options.Token, flux: options.Flux, tb: tb, dir: tb.TempDir(),
		address: "127.0.0.1:0", two: InfluxTwo()}
	if s.two {
		s.run()
		s.setUp()
		return s
	}
	s.configure()
	s.run()
	if user, password, ok := strings.Cut(options.Token, ":"); ok {
		s.Query(fmt.Sprintf("CREATE USER %q WITH PASSWORD '%s' WITH ALL PRIVILEGES", user, password))
	}
	s.Query(fmt.Sprintf("CREATE DATABASE %q", s.Database))
	return s
}

// configure writes the server's configuration. It disables the backup service, which would listen on a fixed port.
func (s *Influx) configure() {
	s.tb.Helper()
	text := fmt.Sprintf(`reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
  dir = %q
[data]
  dir = %q
  wal-dir = %q
  query-log-enabled = false
[monitor]
  store-enabled = false
[http]
  bind-address = %q
  auth-enabled = %t
  flux-enabled = %t
  log-enabled = false
`, filepath.Join(s.dir, "meta"), filepath.Join(s.dir, "data"), filepath.Join(s.dir, "wal"), s.address,
		s.Token != "", s.flux)
	if err := os.WriteFile(filepath.Join(s.dir, "influxd.conf"), []byte(text), 0o600); err != nil {
		s.tb.Fatal(err)
	}
}

// run starts the process and waits until it logs its address.
func (s *Influx) run() {
	s.tb.Helper()
	if s.two {
		s.runTwo()
		return
	}
	s.process = process.Start(s.tb, process.Tool(s.tb, "influxd", "InfluxDB"), "-config",
		filepath.Join(s.dir, "influxd.conf"))
	s.address = s.process.Await(`Listening on HTTP.* addr=(\S+)`)[1]
	s.URL = "http://" + s.address
}

// Flags returns the flags that make Spate's programs write to this server.
func (s *Influx) Flags() []string { return []string{"--sink", s.Sink(s.URL, s.Database)} }

// Sink returns the value of --sink that names a bucket of this server, which may be behind another URL.
func (s *Influx) Sink(at, bucket string) string {
	q := url.Values{"bucket": {bucket}}
	if s.Org != "" {
		q.Set("org", s.Org)
	}
	if s.Token != "" {
		path := filepath.Join(s.dir, "token")
		if err := os.WriteFile(path, []byte(s.Token), 0o600); err != nil {
			s.tb.Fatal(err)
		}
		q.Set("token", "file:"+path)
	}
	return "influx+" + at + "?" + q.Encode()
}

// Kill ends the server at once, like a crash. It may be called more than once.
func (s *Influx) Kill() { s.process.Kill() }

// Restart restarts a killed server with its data, at its address.
func (s *Influx) Restart() {
	s.tb.Helper()
	if !s.two {
		s.configure()
	}
	s.run()
}

// Drop removes the database or bucket with all its data.
func (s *Influx) Drop() {
	s.tb.Helper()
	if s.two {
		s.dropBucket()
		return
	}
	s.Query(fmt.Sprintf("DROP DATABASE %q", s.Database))
}

// Create makes the database or bucket, which must not exist. It keeps points for that long; 0: forever.
func (s *Influx) Create(keep time.Duration) {
	s.tb.Helper()
	if s.two {
		s.createBucket(keep)
		return
	}
	duration := ""
	if keep > 0 {
		duration = fmt.Sprintf(" WITH DURATION %v SHARD DURATION %[1]v", keep)
	}
	s.Query(fmt.Sprintf("CREATE DATABASE %q", s.Database) + duration)
}

// InfluxSeries is the part of a query's answer with the rows of one series.
type InfluxSeries struct {
	// Name is the measurement.
	Name string `json:"name"`
	// Tags identify the series.
	Tags map[string]string `json:"tags"`
	// Columns name the values of each row; the first is "time", in nanoseconds.
	Columns []string `json:"columns"`
	// Values hold json.Number, string, bool or nil.
	Values [][]any `json:"values"`
}

type answer struct {
	Error   string `json:"error"`
	Results []struct {
		Error  string         `json:"error"`
		Series []InfluxSeries `json:"series"`
	} `json:"results"`
}

// Query runs InfluxQL. An error fails the test.
func (s *Influx) Query(query string) []InfluxSeries {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Timeout)
	defer cancel()
	a, err := s.ask(ctx, query)
	if err != nil {
		s.tb.Fatalf("query %q: %v", query, err)
	}
	var all []InfluxSeries
	for _, result := range a.Results {
		if result.Error != "" {
			s.tb.Fatalf("query %q: %s", query, result.Error)
		}
		all = append(all, result.Series...)
	}
	return all
}

// Write writes one line, given without its time, at a time that long ago. An error fails the test.
func (s *Influx) Write(line string, ago time.Duration) {
	s.tb.Helper()
	s.Post(fmt.Sprintf("%s %d", line, time.Now().Add(-ago).UnixNano()))
}

// Post writes one line. An error fails the test.
func (s *Influx) Post(line string) {
	s.tb.Helper()
	request, err := http.NewRequestWithContext(s.tb.Context(), http.MethodPost, s.URL+"/write?db="+
		url.QueryEscape(s.Database), strings.NewReader(line+"\n"))
	if err != nil {
		s.tb.Fatal(err)
	}
	s.authorize(request)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // The body is not needed.
	if response.StatusCode != http.StatusNoContent {
		s.tb.Fatalf("write %q: %s", line, response.Status)
	}
}

func (s *Influx) ask(ctx context.Context, query string) (answer, error) {
	form := url.Values{"q": {query}, "db": {s.Database}, "epoch": {"ns"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/query", strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Close = true
	s.authorize(request)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // The body is read to its end below.
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber()
	var a answer
	if err := decoder.Decode(&a); err != nil {
		return answer{}, fmt.Errorf("answer %d: %w", response.StatusCode, err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("answer %d: %s", response.StatusCode, a.Error)
	}
	return a, nil
}

// authorize adds the token in the form that the server expects.
func (s *Influx) authorize(request *http.Request) {
	if user, password, ok := strings.Cut(s.Token, ":"); ok {
		request.SetBasicAuth(user, password)
	} else if s.Token != "" {
		request.Header.Set("Authorization", "Token "+s.Token)
	}
}
