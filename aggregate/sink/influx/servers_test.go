package influx_test

import (
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/influx"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/internal/victoriatest"
)

// fake is a server that answers pings and writes in the manner of another kind of server.
type fake struct {
	ping   int               // status of a ping that shows a good token
	write  int               // status of a write of the probe, likewise
	tokens map[string]bool   // Authorization headers that are good. Nil: any
	open   bool              // pings need no token
	bodies chan<- string     // what was written
	query  map[string]string // parameters that a write must have
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

// What is there passes the check in the manner of each kind of server, and what is not there fails it with a reason.
func TestCheckKnowsOtherServers(t *testing.T) {
	three := fake{ping: 200, write: 204, tokens: map[string]bool{"Token apiv3_x": true, "Bearer apiv3_x": true}, query: map[string]string{"bucket": "b", "precision": "ns"}}
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
		"InfluxDB 3":                                  {three, "apiv3_x", ""},
		"InfluxDB 3, a scheme of one's own":           {three, "Bearer apiv3_x", ""},
		"InfluxDB 3, a write without lines is bad":    {threeOfEmpty, "apiv3_x", ""},
		"InfluxDB 3, wrong token":                     {three, "apiv3_y", "refuses the token"},
		"InfluxDB 3, no token":                        {three, "", "refuses the token"},
		"InfluxDB 3 that pings without a token":       {fake{ping: 200, write: 204, open: true, tokens: map[string]bool{"Token x": true}}, "y", "refuses the token"},
		"VictoriaMetrics":                             {victoria, "", ""},
		"VictoriaMetrics with user and password":      {basic, "u:p", ""},
		"VictoriaMetrics, wrong password":             {basic, "u:q", "refuses the token"},
		"VictoriaMetrics behind a path without pings": {behindPath, "", ""},
		"a server that finds both bad":                {fake{ping: 400, write: 400}, "", "not as an InfluxDB does"},
		"no write there":                              {fake{ping: 204, write: 404}, "", "is this no InfluxDB"},
		"not allowed":                                 {fake{ping: 204, write: 403}, "", "give it that right"},
		"broken":                                      {fake{ping: 204, write: 500}, "", "answers 500"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.fake)
			defer server.Close()
			err := influx.Check(t.Context(), influx.Config{URL: server.URL, Token: c.token, Bucket: "b"})
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Check: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check: %v, want %q", err, c.want)
			}
		})
	}
}

// The probe of a check has no point in it.
func TestProbeIsAComment(t *testing.T) {
	bodies := make(chan string, 1)
	server := httptest.NewServer(fake{ping: 204, write: 204, bodies: bodies})
	defer server.Close()
	if err := influx.Check(t.Context(), influx.Config{URL: server.URL, Bucket: "b"}); err != nil {
		t.Fatal(err)
	}
	if body := <-bodies; !strings.HasPrefix(body, "#") || strings.Count(body, "\n") != 1 {
		t.Errorf("the probe is %q", body)
	}
}

// A certificate is checked by the authority that is given, and an error says what to do.
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
		"known":               {server.URL, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, ""},
		"not looked at":       {server.URL, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, ""},
		"unknown":             {server.URL, nil, "--influx-ca"},
		"another name":        {server.URL, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: "elsewhere.test"}, "for another name"},
		"plain to TLS":        {"http" + strings.TrimPrefix(server.URL, "https"), nil, "http:// or https://"},
		"TLS to a plain port": {"https" + strings.TrimPrefix(plain.URL, "http"), nil, "does not speak TLS"},
	} {
		err := influx.Check(t.Context(), influx.Config{URL: c.url, Bucket: "b", TLS: c.tls})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A real VictoriaMetrics has each number of each point once, however often it was written: about 12 digits of it, and 0 for a text.
func TestVictoriaMetrics(t *testing.T) {
	server := victoriatest.Start(t, "spate:correct-horse")
	config := influx.Config{
		URL: server.URL, Token: server.Token, Bucket: "spate", Spool: filepath.Join(t.TempDir(), "spool"), Log: slog.New(slog.DiscardHandler),
	}
	wrong := config
	wrong.Token = "spate:secret-guess"
	if err := influx.Check(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "refuses the token") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong password: %v", err)
	}
	if err := influx.Check(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	var rows []sink.Row
	for range 2 {
		s, err := influx.New(config)
		if err != nil {
			t.Fatal(err)
		}
		rows = feed(s, 0, 5)
		s.Event(sinktest.Event())
		s.Agent(sinktest.Agent())
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
			name := row.Measurement + "_" + f.Key + " quickstart-20260329" + row.Time.Truncate(time.Millisecond).Local().String()
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

// number is a field's value as a server of numbers alone has it.
func number(f sink.Field) float64 {
	if f.Kind == sink.KindFloat {
		return f.Float
	}
	return float64(f.Int)
}
