package otlp

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
)

// sent returns the metrics of points by name, as a receiver decodes them. MetricsData has the same fields as a request.
func sent(t *testing.T, points ...sink.Point) map[string]*metrics.Metric {
	t.Helper()
	var body []byte
	for _, p := range points {
		for _, row := range p.Rows() {
			var err error
			if body, err = appendRow(body, &row); err != nil {
				t.Fatal(err)
			}
		}
	}
	var data metrics.MetricsData
	if err := proto.Unmarshal(body, &data); err != nil {
		t.Fatal(err)
	}
	all := map[string]*metrics.Metric{}
	for _, r := range data.GetResourceMetrics() {
		for _, m := range r.GetScopeMetrics()[0].GetMetrics() {
			if all[m.GetName()] != nil && m.GetSum() == nil { // classes of errors have one name
				t.Errorf("two metrics are called %s", m.GetName())
			}
			all[m.GetName()] = m
		}
	}
	return all
}

// Counts are sums over the time of the stage so far, distributions histograms, everything else gauges. Nothing is a
// percentile, and windows are left out.
func TestMetrics(t *testing.T) {
	h := histogram.New(histogram.Times)
	h.Record(2e6)
	h.Record(0)
	window := sinktest.Window(3)
	window.ToDate.Distributions = []sink.Distribution{{Name: "ttft_ms", Summary: *h.Summary(1e6),
		Buckets: h.Exponential(measure.Nanoseconds)}}
	window.ToDate.Errors = map[string]uint64{"http_503": 4}
	all := sent(t, window, sinktest.Stage(), sinktest.Event(), sinktest.Agent(), sinktest.Server())
	start, end := uint64(window.StageStart.UnixNano()), uint64(window.StageStart.Add(4*time.Second).UnixNano())

	completed := all["spate.to_date.completed"]
	if p := completed.GetSum().GetDataPoints()[0]; completed.GetUnit() != "{request}" ||
		!completed.GetSum().GetIsMonotonic() ||
		p.GetStartTimeUnixNano() != start || p.GetTimeUnixNano() != end ||
		p.GetAsInt() != int64(window.ToDate.Counters.GetCompleted()) {
		t.Errorf("completed: %v", completed)
	}
	failed := all["spate.to_date.errors"].GetSum().GetDataPoints()[0]
	if class := failed.GetAttributes()[len(failed.GetAttributes())-1]; class.GetKey() != "class" ||
		class.GetValue().GetStringValue() != "http_503" || failed.GetAsInt() != 4 {
		t.Errorf("errors: %v", failed)
	}
	ttft := all["spate.to_date.ttft"]
	if p := ttft.GetExponentialHistogram().GetDataPoints()[0]; ttft.GetUnit() != "s" || p.GetCount() != 2 ||
		p.GetSum() != 0.002 || p.GetMax() != 0.002 || p.GetScale() != 8 || p.GetStartTimeUnixNano() != start ||
		p.GetTimeUnixNano() != end || len(p.GetAttributes()) != len(failed.GetAttributes())-1 {
		t.Errorf("ttft: %v", ttft)
	}
	if p := all["spate.agent.clock_offset"].GetGauge().GetDataPoints()[0]; p.GetAsDouble() != -1234567e-9 {
		t.Errorf("a time in seconds: %v", p)
	}
	for _, name := range []string{"spate.window.peak_in_flight", "spate.stage.complete", "spate.stage.completed",
		"spate.stage.duration", "spate.server.value"} {
		if all[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "spate.window.") && name != "spate.window.peak_in_flight" ||
			strings.Contains(name, "p99") || strings.Contains(name, "event") {
			t.Errorf("%s is sent", name)
		}
	}
}

// A counter and a distribution of one name differ.
func TestNamesDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, c := range measure.Counters() {
		field := &sink.Field{Key: c.String(), Kind: sink.KindInt}
		names[sink.NameOf(sink.MeasurementToDate, field).OpenTelemetry()] = true
	}
	for _, m := range measure.Metrics() {
		name := sink.NameOf(sink.MeasurementToDate, &sink.Field{Key: m.Name, Kind: sink.KindBuckets}).OpenTelemetry()
		if names[name] || strings.Contains(name, "_ms") {
			t.Errorf("%s is called %s", m.Name, name)
		}
		names[name] = true
	}
}

// Metrics of the conventions are sent once, of the stage as a whole, with their attributes.
func TestConventions(t *testing.T) {
	h := histogram.New(histogram.Counts)
	h.Record(150)
	for _, c := range Conventions {
		window := sinktest.Window(3)
		window.Scope.API, window.Scope.Model = "completions", "llama"
		window.ToDate.Distributions = []sink.Distribution{{Name: c.Metric, Summary: *h.Summary(1),
			Buckets: h.Exponential(measure.Tokens)}}
		m := sent(t, window)[c.Name]
		got := map[string]string{}
		for _, a := range m.GetExponentialHistogram().GetDataPoints()[0].GetAttributes() {
			got[a.GetKey()] = a.GetValue().GetStringValue()
		}
		if got["gen_ai.operation.name"] != "text_completion" || got["gen_ai.provider.name"] != "openai" ||
			got["gen_ai.request.model"] != "llama" || got["gen_ai.token.type"] != c.TokenType || m.GetUnit() == "" {
			t.Errorf("%s: unit %q, %v", c.Name, m.GetUnit(), got)
		}
		window.Scope.Region = "eu"
		if sent(t, window)[c.Name] != nil {
			t.Errorf("%s is sent of a part of a stage", c.Name)
		}
	}
}

func TestRowWithoutATime(t *testing.T) {
	row := sink.Row{Measurement: sink.MeasurementStage, Fields: []sink.Field{{Key: "completed", Kind: sink.KindInt}}}
	if _, err := appendRow(nil, &row); !errors.Is(err, errNoTime) {
		t.Errorf("%v", err)
	}
}

// partial is the answer of a collector that rejects some points.
func partial(points uint64, why string) []byte {
	inner := protowire.AppendVarint(protowire.AppendTag(nil, rejectedPoints, protowire.VarintType), points)
	inner = protowire.AppendString(protowire.AppendTag(inner, whyRejected, protowire.BytesType), why)
	return protowire.AppendBytes(protowire.AppendTag(nil, partialSuccess, protowire.BytesType), inner)
}

// What collectors answer, and what it means.
func TestAnswers(t *testing.T) {
	status := protowire.AppendString(protowire.AppendTag(nil, statusMessage, protowire.BytesType), "no such tenant")
	for name, c := range map[string]struct {
		status  int
		answer  []byte
		want    string // part of the error; empty: none
		refused int    // points, -1: not a refusal
	}{
		"taken":           {200, nil, "", -1},
		"accepted":        {202, nil, "", -1},
		"a part rejected": {200, partial(7, "too\nold"), "rejects 7 data points: too old", 7},
		"a warning":       {200, partial(0, "soon"), "", -1},
		"garbage":         {200, []byte("\xff\xff\xff<html>"), "", -1},
		"malformed":       {400, status, "400: no such tenant", 0},
		"too large":       {413, []byte("big"), "413: big", 0},
		"no right":        {401, nil, "(token=, header=)", -1},
		"another path":    {404, []byte("404 page not found"), "usually port 4318", -1},
		"busy":            {429, nil, "answers 429", -1},
		"down":            {503, nil, "answers 503", -1},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write(c.answer)
		}))
		err := open(t, Config{URL: server.URL, Token: "s3cret"}).Send(t.Context(), nil)
		server.Close()
		var refused *delivery.RefusedError
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: the error has the token: %v", name, err)
		case errors.As(err, &refused) != (c.refused >= 0) || refused != nil && refused.Points != c.refused:
			t.Errorf("%s: %v, want %d points refused", name, err, c.refused)
		}
	}
}

// open returns a database that is closed at the end of the test.
func open(t *testing.T, config Config) *Database {
	t.Helper()
	db, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// A request has the path of metrics unless the URL has one, and all headers.
func TestRequests(t *testing.T) {
	var path string
	var got http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		path, got = q.URL.Path, q.Header
		if unpacked, err := gzip.NewReader(q.Body); err == nil {
			body, _ = io.ReadAll(unpacked)
		}
	}))
	defer server.Close()
	for given, want := range map[string]string{"": "/v1/metrics", "/": "/v1/metrics", "/otlp/v1/metrics": "/otlp/v1/metrics"} {
		db := open(t, Config{URL: server.URL + given, Token: "t", Header: http.Header{"Api-Key": {"k"}}})
		if err := db.Send(t.Context(), []byte("sent")); err != nil {
			t.Fatal(err)
		}
		if path != want || string(body) != "sent" || got.Get("Authorization") != "Bearer t" || got.Get("Api-Key") != "k" ||
			got.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%q: %s %v %q", given, path, got, body)
		}
	}
}

// A redirect is not followed: the token would go elsewhere, and points would be lost with an answer of success.
func TestRedirects(t *testing.T) {
	elsewhere := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/elsewhere" {
			elsewhere++
			return
		}
		http.Redirect(w, q, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	err := open(t, Config{URL: server.URL}).Check(context.Background())
	if err == nil || !strings.Contains(err.Error(), "redirects to "+server.URL+"/elsewhere: give that URL") || elsewhere != 0 {
		t.Errorf("%v, followed %d times", err, elsewhere)
	}
}

func TestConfigsThatCannotWork(t *testing.T) {
	for want, c := range map[string]Config{
		"is not the name":           {URL: "http://localhost:4318", Header: http.Header{"a b": {"s3cret"}}},
		"is set by Spate":           {URL: "http://localhost:4318", Header: http.Header{"content-type": {"s3cret"}}},
		"has a control character":   {URL: "http://localhost:4318", Header: http.Header{"Key": {"s3cret\n"}}},
		"give one of them":          {URL: "http://localhost:4318", Token: "t", Header: http.Header{"authorization": {"s3cret"}}},
		"the token contains a line": {URL: "http://localhost:4318", Token: "s3cret\n"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// No answer panics.
func FuzzAnswer(f *testing.F) {
	f.Add(partial(3, "why"))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(_ *testing.T, answer []byte) {
		d := &Database{}
		_ = d.rejected(answer)
		readable(answer)
	})
}
