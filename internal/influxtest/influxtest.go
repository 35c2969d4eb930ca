// Package influxtest runs a real InfluxDB 1.8 for tests: on loopback, in a directory of its own, without Flux unless asked: that
// takes seconds to start. Only tests import it. `make .bin/influxd` builds the server.
package influxtest

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

// Server is one InfluxDB. Its data outlive Kill.
type Server struct {
	// URL is its base URL, the same after a restart.
	URL string
	// Database exists from the start. Its bucket has the same name.
	Database string
	// Token is that of the administrator. Empty: the server asks for none.
	Token string

	tb      testing.TB
	flux    bool
	dir     string
	address string
	process *process.Process
}

// Options of a server.
type Options struct {
	// Token of the administrator, "user:password". Empty: the server asks for none.
	Token string
	// Flux makes the server answer Flux queries. Its start takes seconds then.
	Flux bool
}

// Start runs a server until the test ends. Where the program is not built the test fails under CI=true and is skipped elsewhere.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	s := &Server{Database: "spate", Token: options.Token, flux: options.Flux, tb: tb, dir: tb.TempDir(), address: "127.0.0.1:0"}
	s.configure()
	s.run()
	if user, password, ok := strings.Cut(options.Token, ":"); ok {
		s.Query(fmt.Sprintf("CREATE USER %q WITH PASSWORD '%s' WITH ALL PRIVILEGES", user, password))
	}
	s.Query(fmt.Sprintf("CREATE DATABASE %q", s.Database))
	return s
}

// configure writes the server's configuration. The backup service would listen on a fixed port.
func (s *Server) configure() {
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
`, filepath.Join(s.dir, "meta"), filepath.Join(s.dir, "data"), filepath.Join(s.dir, "wal"), s.address, s.Token != "", s.flux)
	if err := os.WriteFile(filepath.Join(s.dir, "influxd.conf"), []byte(text), 0o600); err != nil {
		s.tb.Fatal(err)
	}
}

// run starts the process and waits until it says where it listens.
func (s *Server) run() {
	s.tb.Helper()
	s.process = process.Start(s.tb, process.Tool(s.tb, "influxd", "InfluxDB"), "-config", filepath.Join(s.dir, "influxd.conf"))
	s.address = s.process.Await(`Listening on HTTP.* addr=(\S+)`)[1]
	s.URL = "http://" + s.address
}

// Kill ends the server at once, as a crash would. It may be called again.
func (s *Server) Kill() { s.process.Kill() }

// Restart starts a killed server again, with its data, at its address.
func (s *Server) Restart() {
	s.tb.Helper()
	s.configure()
	s.run()
}

// Series is a part of a query's answer: the rows of one series.
type Series struct {
	// Name is the measurement.
	Name string `json:"name"`
	// Tags name the series.
	Tags map[string]string `json:"tags"`
	// Columns name the values of each row; the first is "time", in nanoseconds.
	Columns []string `json:"columns"`
	// Values hold json.Number, string, bool or nil.
	Values [][]any `json:"values"`
}

type answer struct {
	Error   string `json:"error"`
	Results []struct {
		Error  string   `json:"error"`
		Series []Series `json:"series"`
	} `json:"results"`
}

// Query runs InfluxQL. A mistake fails the test.
func (s *Server) Query(query string) []Series {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	a, err := s.ask(ctx, query)
	if err != nil {
		s.tb.Fatalf("query %q: %v", query, err)
	}
	var all []Series
	for _, result := range a.Results {
		if result.Error != "" {
			s.tb.Fatalf("query %q: %s", query, result.Error)
		}
		all = append(all, result.Series...)
	}
	return all
}

// Write writes one line without its time, which is so long ago. A mistake fails the test.
func (s *Server) Write(line string, ago time.Duration) {
	s.tb.Helper()
	text := fmt.Sprintf("%s %d\n", line, time.Now().Add(-ago).UnixNano())
	request, err := http.NewRequestWithContext(s.tb.Context(), http.MethodPost, s.URL+"/write?db="+url.QueryEscape(s.Database), strings.NewReader(text))
	if err != nil {
		s.tb.Fatal(err)
	}
	if user, password, ok := strings.Cut(s.Token, ":"); ok {
		request.SetBasicAuth(user, password)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // Nothing is read of it.
	if response.StatusCode != http.StatusNoContent {
		s.tb.Fatalf("write %q: %s", line, response.Status)
	}
}

func (s *Server) ask(ctx context.Context, query string) (answer, error) {
	form := url.Values{"q": {query}, "db": {s.Database}, "epoch": {"ns"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/query", strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Close = true
	if user, password, ok := strings.Cut(s.Token, ":"); ok {
		request.SetBasicAuth(user, password)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // Read to its end below.
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
