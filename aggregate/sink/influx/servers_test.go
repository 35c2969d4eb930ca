package influx_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/influx"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/internal/servertest"
)

// fake is a server that answers pings and writes like a given kind of server.
type fake struct {
	ping   int               // status of a ping with a valid token
	write  int               // status of a write with a valid token
	tokens map[string]bool   // valid Authorization headers; nil: any
	open   bool              // pings need no token
	bodies chan<- string     // receives what was written
	query  map[string]string // parameters that a write must have
	says   string            // body of the answer to a write
}

func (f fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	known := f.tokens == nil || f.tokens[r.Header.Get("Authorization")]
	switch {
	case r.URL.Path == "/ping" && (known || f.open):
		w.WriteHeader(f.ping)
	case !known:
		http.Error(w, `{"error": "the request was not authenticated"}`, http.StatusUnauthorized)
	case r.URL.Path == "/api/v2/write" && r.Method == http.MethodPost:
		for key, value := range f.query {
			if r.URL.Query().Get(key) != value {
				http.Error(w, "missing query parameters "+key, http.StatusBadRequest)
				return
			}
		}
		if f.bodies != nil {
			f.bodies <- unzipped(r)
		}
		w.WriteHeader(f.write)
		_, _ = io.WriteString(w, f.says)
	default:
		http.NotFound(w, r)
	}
}

func unzipped(r *http.Request) string {
	body, err := gzip.NewReader(r.Body)
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Check passes for each kind of server that would take points, and otherwise fails with a reason.
func TestCheckKnowsOtherServers(t *testing.T) {
	three := fake{ping: 200, write: 204, tokens: map[string]bool{"Token apiv3_x": true, "Bearer apiv3_x": true},
		query: map[string]string{"bucket": "b", "precision": "ns"}}
	threeOfEmpty := three
	threeOfEmpty.write = 400 // a write without a line
	victoria := fake{ping: 204, write: 204}
	behindPath := fake{ping: 400, write: 204}
	basic := fake{ping: 204, write: 204, tokens: map[string]bool{"Basic dTpw": true}}
	for name, c := range map[string]struct {
		fake  fake
		token string
		want  string
	}{
		"InfluxDB 3":                               {three, "apiv3_x", ""},
		"InfluxDB 3, a scheme of one's own":        {three, "Bearer apiv3_x", ""},
		"InfluxDB 3, a write without lines is bad": {threeOfEmpty, "apiv3_x", ""},
		"InfluxDB 3, wrong token":                  {three, "apiv3_y", "refuses the token"},
		"InfluxDB 3, no token":                     {three, "", "refuses the token"},
		"InfluxDB 3 that pings without a token": {fake{ping: 200, write: 204, open: true,
			tokens: map[string]bool{"Token x": true}}, "y", "refuses the token"},
		"VictoriaMetrics":                             {victoria, "", ""},
		"VictoriaMetrics with user and password":      {basic, "u:p", ""},
		"VictoriaMetrics, wrong password":             {basic, "u:q", "refuses the token"},
		"VictoriaMetrics behind a path without pings": {behindPath, "", ""},
		"a server that finds both bad":                {fake{ping: 400, write: 400}, "", "answers 400"},
		"escape codes":                                {fake{ping: 400, write: 400, says: "a\x1b[31mb"}, "", "a [31mb"},
		"no write there":                              {fake{ping: 404, write: 404}, "", "does not answer like an InfluxDB"},
		"not allowed":                                 {fake{ping: 204, write: 403}, "", "give it that right"},
		"broken":                                      {fake{ping: 204, write: 500}, "", "answers 500"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.fake)
			defer server.Close()
			err := check(t, influx.Config{URL: server.URL, Token: c.token, Bucket: "b"})
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Check: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check: %v, want %q", err, c.want)
			}
		})
	}
}

// The probe of a check contains no point.
func TestProbeIsAComment(t *testing.T) {
	bodies := make(chan string, 1)
	server := httptest.NewServer(fake{ping: 204, write: 204, bodies: bodies})
	defer server.Close()
	if err := check(t, influx.Config{URL: server.URL, Bucket: "b"}); err != nil {
		t.Fatal(err)
	}
	if body := <-bodies; !strings.HasPrefix(body, "#") || strings.Count(body, "\n") != 1 {
		t.Errorf("the probe is %q", body)
	}
}

// A certificate is verified with the given authority, and an error says what to do.
func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(fake{ping: 204, write: 204})
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	plain := httptest.NewServer(fake{ping: 204, write: 204})
	defer plain.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	for name, c := range map[string]struct {
		url  string
		tls  *tls.Config
		want string
	}{
		"known":         {server.URL, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, ""},
		"not looked at": {server.URL, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, ""},
		"unknown":       {server.URL, nil, "ca=FILE"},
		"another name": {server.URL, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool,
			ServerName: "elsewhere.test"}, "for another name"},
		"plain to TLS":        {"http" + strings.TrimPrefix(server.URL, "https"), nil, "is its URL https://?"},
		"TLS to a plain port": {"https" + strings.TrimPrefix(plain.URL, "http"), nil, "does not speak TLS"},
	} {
		err := check(t, influx.Config{URL: c.url, Bucket: "b", TLS: c.tls})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A real VictoriaMetrics has each number of each point once, even if it was written twice: with about 12 digits, and 0
// for a text.
func TestVictoriaMetrics(t *testing.T) {
	server := servertest.StartVictoria(t, "spate:correct-horse")
	config := influx.Config{
		URL: server.URL, Token: server.Token, Bucket: "spate",
	}
	wrong := config
	wrong.Token = "spate:secret-guess"
	if err := check(t, wrong); err == nil || !strings.Contains(err.Error(), "refuses the token") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong password: %v", err)
	}
	if err := check(t, config); err != nil {
		t.Fatal(err)
	}
	var rows []sink.Row
	for range 2 {
		s := deliver(t, config, slog.New(slog.DiscardHandler))
		rows = feed(s, 0, 5)
		s.Put(sinktest.Event())
		s.Put(sinktest.Agent())
		finish(t, s)
	}
	rows = append(append(rows, sinktest.Event().Rows()...), sinktest.Agent().Rows()...)
	got := map[string]float64{}
	for _, series := range server.Export(`{__name__=~"spate_.+"}`) {
		for i, at := range series.Timestamps {
			name := series.Metric["__name__"] + " " + series.Metric["run"] + time.UnixMilli(at).String()
			if _, twice := got[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			got[name] = series.Values[i]
		}
	}
	for _, row := range rows {
		for _, f := range row.Fields {
			want := number(f)
			name := row.Measurement + "_" + f.Key + " quickstart-20260329" +
				row.Time.Truncate(time.Millisecond).Local().String()
			value, found := got[name]
			if !found || math.Abs(value-want) > 1e-11*math.Abs(want) {
				t.Errorf("%s is %v, want %v", name, value, want)
			}
			delete(got, name)
		}
	}
	if len(got) > 0 {
		t.Errorf("%d values more than were written: %v", len(got), got)
	}
}

// number returns a field's value on a server that stores only numbers.
func number(f sink.Field) float64 {
	if f.Kind == sink.KindFloat {
		return f.Float
	}
	return float64(f.Int)
}

// two answers writes as InfluxDB 2.7.12 does, with the same messages (seen 2026-11-23).
type two struct {
	mu    sync.Mutex
	org   string // the organisation that exists
	lines []string
	asked int // number of writes with points
}

func (f *two) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ping" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	body := unzipped(r)
	if !strings.HasPrefix(body, "#") {
		f.asked++
	}
	bad := strings.Count(body, "bad")
	switch org := r.URL.Query().Get("org"); {
	case f.org == "" || org == "":
		say(w, 400, "invalid", "Please provide either orgID or org")
	case org != f.org:
		say(w, 404, "not found", `organization name "`+org+`" not found`)
	case bad > 0:
		say(w, 422, "unprocessable entity",
			fmt.Sprintf("failure writing points to database: partial write: field type conflict: dropped=%d", bad))
	default:
		f.lines = append(f.lines, body)
		w.WriteHeader(http.StatusNoContent)
	}
}

func say(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "message": message})
}

// Without an organisation, or with a wrong one, InfluxDB 2 takes no points. Check says so and names the flag, and
// points are kept until the organisation exists.
func TestOrganisations(t *testing.T) {
	fake := &two{}
	server := httptest.NewServer(fake)
	defer server.Close()
	config := influx.Config{URL: server.URL, Token: "t", Bucket: "b"}
	if err := check(t, config); err == nil ||
		!strings.Contains(err.Error(), "give the organisation (org=)") {
		t.Errorf("without an organisation: %v", err)
	}
	log := &logged{news: make(chan struct{}, 1)}
	config.Org = "o"
	s := deliver(t, config, slog.New(slog.NewTextHandler(log, nil)))
	feed(s, 0, 3)
	log.await(t, "cannot be written to")
	fake.mu.Lock()
	fake.org = "o"
	fake.mu.Unlock()
	finish(t, s)
	if got := strings.Count(strings.Join(fake.lines, ""), "spate_window"); got == 0 {
		t.Error("what was kept did not arrive")
	}
	config.Org = "p"
	if err := check(t, config); err == nil || !strings.Contains(err.Error(), `no organisation "p"`) ||
		strings.Contains(err.Error(), "no bucket") {
		t.Errorf("a wrong organisation: %v", err)
	}
}

// A server that says how many points of a request it dropped took the others, which are not sent again.
func TestRefusedPointsCostOneRequest(t *testing.T) {
	fake := &two{org: "o"}
	server := httptest.NewServer(fake)
	defer server.Close()
	db := database(t, influx.Config{URL: server.URL, Token: "t", Org: "o", Bucket: "b"})
	w := delivery.NewWriter(db, time.Second, slog.New(slog.DiscardHandler))
	rows := sinktest.Event().Rows()
	for i := range 10 {
		row := rows[0]
		row.Time = row.Time.Add(time.Duration(i) * time.Second)
		if i%5 == 0 {
			row.Measurement = "spate_bad"
		}
		if err := w.Write(t.Context(), []sink.Row{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if refused, _ := w.Refused(); refused != 2 || w.Written() != 8 || fake.asked != 1 {
		t.Errorf("%d refused, %d written, %d requests", refused, w.Written(), fake.asked)
	}
}

// As long as the server does not answer the probe, it is not known whether a bad request is the points' fault, so no
// point is dropped.
func TestUnansweredDoubtKeepsPoints(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(unzipped(r), "#") {
			panic(http.ErrAbortHandler)
		}
		asked.Add(1)
		say(w, 400, "invalid", "who knows")
	}))
	defer server.Close()
	log := &logged{news: make(chan struct{}, 1)}
	s := deliver(t, influx.Config{URL: server.URL, Bucket: "b"}, slog.New(slog.NewTextHandler(log, nil)))
	rows := feed(s, 0, 3)
	log.await(t, "cannot be written to")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var undelivered *delivery.UndeliveredError
	err := s.Close(ctx)
	if !errors.As(err, &undelivered) || undelivered.Unsent != len(rows) || undelivered.Refused > 0 ||
		asked.Load() == 0 {
		t.Errorf("Close: %v", err)
	}
}
