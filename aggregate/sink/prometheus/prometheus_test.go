package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/internal/victoriatest"
)

// pointsOf returns points of all kinds.
func pointsOf() []sink.Point {
	points := []sink.Point{sinktest.Stage(), sinktest.Event(), sinktest.Agent(), sinktest.Server()}
	for window := range uint32(5) {
		points = append(points, sinktest.Window(window))
	}
	return points
}

// numbersOf returns the numbers of points, by series and time. Each has its own.
func numbersOf(t *testing.T, points []sink.Point) map[string]float64 {
	t.Helper()
	numbers := map[string]float64{}
	for _, p := range points {
		for _, row := range p.Rows() {
			for i := range row.Fields {
				value, ok := row.Fields[i].Number()
				if !ok {
					continue
				}
				m := sink.NameOf(row.Measurement, &row.Fields[i])
				labels := map[string]string{"__name__": m.Prometheus()}
				if label := m.Label(); label.Key != "" {
					labels[label.Key] = label.Value
				}
				for _, tag := range row.Tags {
					labels[tag.Key] = tag.Value
				}
				name := fmt.Sprint(labels, row.Time.UnixMilli())
				if _, twice := numbers[name]; twice {
					t.Errorf("two numbers are called %s", name)
				}
				numbers[name] = value * m.Scale
			}
		}
	}
	return numbers
}

// A real VictoriaMetrics has each number of each point once, at its time and with its tags, even if the run was written
// twice.
func TestVictoriaMetrics(t *testing.T) {
	server := victoriatest.Start(t, "spate:correct-horse")
	config := Config{URL: server.URL + "/api/v1/write", Token: server.Token}
	wrong := config
	wrong.Token = "spate:secret-guess"
	if err := check(t, wrong); err == nil || !strings.Contains(err.Error(), "refuses the token") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong password: %v", err)
	}
	if err := check(t, config); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		queue := delivery.Config{RunDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
		s, err := delivery.Open(queue, open(t, config))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pointsOf() {
			s.Put(p)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]float64{}
	for _, series := range server.Export(`{__name__=~"spate_.+"}`) {
		for i, at := range series.Timestamps {
			name := fmt.Sprint(series.Metric, at)
			if _, twice := got[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			got[name] = series.Values[i]
		}
	}
	want := numbersOf(t, pointsOf())
	for name, value := range want {
		if have, found := got[name]; !found || math.Abs(have-value) > 1e-300+1e-11*math.Abs(value) {
			t.Errorf("%s is %v (%v), want %v", name, have, found, value)
		}
	}
	if len(got) != len(want) || len(want) < 100 {
		t.Errorf("%d values, want %d", len(got), len(want))
	}
}

// VictoriaMetrics keeps the larger of two values that were written for the same series and time, whichever came first,
// as docs/prometheus.md says.
func TestSamplesAreNotReplaced(t *testing.T) {
	server := victoriatest.Start(t, "")
	db := open(t, Config{URL: server.URL + "/api/v1/write"})
	for _, values := range [][]int64{{5, 3}, {3, 5}} {
		name := fmt.Sprintf("order_%d_%d", values[0], values[1])
		for _, value := range values {
			row := sink.Row{Measurement: name, Time: time.Now().Truncate(time.Minute),
				Fields: []sink.Field{{Key: "n", Kind: sink.KindInt, Int: value}}}
			body, err := db.Append(nil, &row)
			if err := errors.Join(err, db.Send(t.Context(), body)); err != nil {
				t.Fatal(err)
			}
		}
		if got := server.Export(name + "_n"); len(got) != 1 || !slices.Equal(got[0].Values, []float64{5}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func open(t *testing.T, config Config) *Database {
	t.Helper()
	db, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func check(t *testing.T, config Config) error {
	t.Helper()
	return open(t, config).Check(t.Context())
}

// A request has the headers of the specification, the tenant and the token.
func TestHeaders(t *testing.T) {
	var got http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
		packed, _ := io.ReadAll(r.Body)
		body, _ = snappy.Decode(nil, packed)
	}))
	defer server.Close()
	if err := open(t, Config{URL: server.URL, Token: "t", Tenant: "load"}).Send(t.Context(), []byte("series")); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf", "Authorization": "Bearer t",
		"X-Prometheus-Remote-Write-Version": "0.1.0", "X-Scope-Orgid": "load",
	} {
		if got.Get(key) != want {
			t.Errorf("%s is %q, want %q", key, got.Get(key), want)
		}
	}
	if string(body) != "series" {
		t.Errorf("body %q", body)
	}
}

// Answers that a person, or time, can change are not refusals, and say what to do.
func TestAnswers(t *testing.T) {
	var status int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of order sample", status)
	}))
	defer server.Close()
	db := open(t, Config{URL: server.URL})
	for _, c := range []struct {
		status  int
		refused bool
		want    string
	}{
		{400, true, "answers 400: out of order sample"}, {413, true, "413"}, {422, true, "422"},
		{401, false, "--prometheus-token"}, {403, false, "--prometheus-tenant"},
		{404, false, "--web.enable-remote-write-receiver"}, {429, false, "answers 429"}, {503, false, "answers 503"},
	} {
		status = c.status
		err := db.Send(t.Context(), nil)
		if refused := errors.As(err, new(*delivery.RefusedError)); err == nil || refused != c.refused ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: refused %v: %v", c.status, refused, err)
		}
	}
	server.Close()
	if err := db.Send(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("no server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Send(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	err := Config{URL: "ftp://x", Token: "a\n", Timeout: -1}.Validate()
	for _, words := range []string{`"ftp://x"`, "line break", "-1ns"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("error %v lacks %q", err, words)
		}
	}
}

func TestRowWithoutATime(t *testing.T) {
	row := sink.Row{Measurement: "m"}
	if _, err := appendRow(nil, &row); !errors.Is(err, errNoTime) {
		t.Errorf("%v", err)
	}
	row.Time = time.Unix(1, 0)
	row.Fields = []sink.Field{{Key: "failure", Kind: sink.KindText, Text: "why"}}
	if b, err := appendRow(nil, &row); len(b) > 0 || err != nil {
		t.Errorf("a text gives %q, %v", b, err)
	}
}
