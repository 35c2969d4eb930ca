package influx_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/influx"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/internal/servertest"
)

func TestConformance(t *testing.T) {
	server := servertest.StartInflux(t, servertest.InfluxOptions{})
	sinktest.Run(t, func(t *testing.T) sinktest.Opened {
		server.Drop()
		server.Create(0)
		s, _ := open(t, server, nil)
		return sinktest.Opened{Sink: s, Rows: func() []sink.Row { return rowsOf(t, server) }}
	})
}

func TestServerDownAtStart(t *testing.T) {
	server := servertest.StartInflux(t, servertest.InfluxOptions{})
	server.Kill()
	s, log := open(t, server, nil)
	want := feed(s, 0, 50)
	log.await(t, "cannot be written to")
	server.Restart()
	finish(t, s)
	sinktest.Equal(t, rowsOf(t, server), want)
	log.await(t, "can be written to again")
}

// Nothing is lost or doubled.
func TestServerKilledMidway(t *testing.T) {
	server := servertest.StartInflux(t, servertest.InfluxOptions{})
	s, log := open(t, server, nil)
	want := feed(s, 0, 60)
	server.Kill()
	want = append(want, feed(s, 60, 120)...)
	log.await(t, "cannot be written to")
	server.Restart()
	want = append(want, feed(s, 120, 150)...)
	finish(t, s)
	sinktest.Equal(t, rowsOf(t, server), want)
}

// The server always refuses a field of another type than before.
func TestOneRefusedPointDoesNotHarmOthers(t *testing.T) {
	server := servertest.StartInflux(t, servertest.InfluxOptions{})
	s, _ := open(t, server, nil)
	bad := sinktest.Event()
	good := feed(s, 0, 1)
	finish(t, s)
	server.Post(fmt.Sprintf("spate_event,kind=old text=1i %d", bad.Time.UnixNano()))
	server.Kill()
	s, log := open(t, server, nil)
	good = append(good, feed(s, 1, 3)...)
	s.Put(bad)
	good = append(good, feed(s, 3, 5)...)
	log.await(t, "cannot be written to")
	server.Restart()
	err := s.Close(t.Context())
	var undelivered *delivery.UndeliveredError
	if !errors.As(err, &undelivered) || undelivered.Refused != 1 || undelivered.Unsent != 0 {
		t.Errorf("Close: %v", err)
	}
	sinktest.Equal(t, slices.DeleteFunc(rowsOf(t, server), isEvent), good)
}

func isEvent(row sink.Row) bool { return row.Measurement == sink.MeasurementEvent }

// The sink keeps trying while the problem is one that a person can fix during the run.
func TestMendedBucket(t *testing.T) {
	server := servertest.StartInflux(t, servertest.InfluxOptions{})
	server.Drop()
	s, log := open(t, server, nil)
	want := feed(s, 0, 3)
	log.await(t, "create it")
	server.Create(0)
	finish(t, s)
	sinktest.Equal(t, rowsOf(t, server), want)
}

// checkTest is a mistake in a configuration, and the expected error.
type checkTest struct {
	name   string
	change func(*influx.Config)
	want   string // empty: no error
}

func TestCheck(t *testing.T) {
	server := servertest.StartInflux(t, servertest.InfluxOptions{Token: "admin:correct-horse"})
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ping" {
			http.NotFound(w, r)
		}
	}))
	defer engine.Close()
	tests := []checkTest{
		{"well", func(*influx.Config) {}, ""},
		{"wrong token", func(c *influx.Config) { c.Token = "admin:secret-guess" }, "refuses the token"},
		{"no token", func(c *influx.Config) { c.Token = "" }, "refuses the token"},
		{"no such database", func(c *influx.Config) { c.Bucket = "nowhere" }, `no bucket "nowhere"`},
		{"no server", func(c *influx.Config) { c.URL = unused(t) }, "cannot be reached"},
		{"another server", func(c *influx.Config) { c.URL = page.URL }, "does not answer like an InfluxDB"},
		{"an engine that answers pings", func(c *influx.Config) { c.URL = engine.URL }, "does not answer like an InfluxDB"},
	}
	if servertest.InfluxTwo() {
		tests = append(tests, checkTest{"no organisation", func(c *influx.Config) { c.Org = "" },
			"give the organisation (org=)"},
			checkTest{"another organisation", func(c *influx.Config) { c.Org = "unknown" }, `no organisation "unknown"`})
	} else {
		tests = append(tests, checkTest{"well, with the retention policy",
			func(c *influx.Config) { c.Bucket = "spate/autogen" }, ""})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := configOf(t, server)
			test.change(&config)
			err := check(t, config)
			if test.want == "" {
				if err != nil {
					t.Errorf("Check: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("Check: %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "secret-guess") {
				t.Errorf("the token is in the error %q", err)
			}
		})
	}
	if rows := rowsOf(t, server); len(rows) > 0 {
		t.Errorf("Check wrote %d rows", len(rows))
	}
}

func TestWrongTokenChangesNothingAndIsSaid(t *testing.T) {
	server := servertest.StartInflux(t, servertest.InfluxOptions{Token: "admin:correct-horse"})
	s, log := open(t, server, func(c *influx.Config) { c.Token = "admin:secret-guess" })
	feed(s, 0, 2)
	log.await(t, "refuses the token")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Close(ctx)
	var undelivered *delivery.UndeliveredError
	if !errors.As(err, &undelivered) || undelivered.Unsent != 4 {
		t.Errorf("Close: %v", err)
	}
	if strings.Contains(log.String(), "secret-guess") || strings.Contains(err.Error(), "secret-guess") {
		t.Error("the token is in the log or the error")
	}
}

// A token that no header can have is refused, without telling it.
func TestTokenWithALineBreak(t *testing.T) {
	_, err := influx.New(influx.Config{URL: "http://localhost:8086", Token: "s3cret\n", Bucket: "b"})
	if err == nil || !strings.Contains(err.Error(), "line break") || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

func BenchmarkWindow(b *testing.B) {
	server := servertest.StartInflux(b, servertest.InfluxOptions{})
	s := deliver(b, configOf(b, server), slog.New(slog.DiscardHandler))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Put(sinktest.Window(uint32(i)))
	}
	if err := s.Close(b.Context()); err != nil {
		b.Error(err)
	}
}

// feed gives a sink windows [from, to) and returns their rows.
func feed(s sink.Sink, from, to uint32) []sink.Row {
	var rows []sink.Row
	for window := from; window < to; window++ {
		point := sinktest.Window(window)
		s.Put(point)
		rows = append(rows, point.Rows()...)
	}
	return rows
}

func configOf(_ testing.TB, server *servertest.Influx) influx.Config {
	return influx.Config{
		URL: server.URL, Token: server.Token, Org: cmp.Or(server.Org, "ignored"), Bucket: server.Database,
	}
}

// database returns a database that is closed when the test ends.
func database(tb testing.TB, config influx.Config) *influx.Database {
	tb.Helper()
	db, err := influx.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return db
}

// check returns what Check says.
func check(t *testing.T, config influx.Config) error {
	t.Helper()
	return database(t, config).Check(t.Context())
}

// deliver returns a run's sink that writes to a database.
func deliver(tb testing.TB, config influx.Config, log *slog.Logger) *delivery.Sink {
	tb.Helper()
	replay := func(func([]sink.Row) error) (bool, error) { tb.Error("a replay"); return false, nil }
	s, err := delivery.Open(delivery.Config{RunDir: tb.TempDir(), Replay: replay, Log: log}, database(tb, config))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func open(t *testing.T, server *servertest.Influx, change func(*influx.Config)) (*delivery.Sink, *logged) {
	t.Helper()
	log := &logged{news: make(chan struct{}, 1)}
	config := configOf(t, server)
	if change != nil {
		change(&config)
	}
	return deliver(t, config, slog.New(slog.NewTextHandler(log, nil))), log
}

func finish(t *testing.T, s sink.Sink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// unused returns the URL of a port on which nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return "http://" + listener.Addr().String()
}

// rowsOf reads everything back as rows.
func rowsOf(t *testing.T, server *servertest.Influx) []sink.Row {
	t.Helper()
	var rows []sink.Row
	for _, series := range server.Query(`SELECT * FROM /spate_.*/ GROUP BY *`) {
		kinds := kindsOf(server, series.Name)
		var tags []sink.Tag
		for _, key := range slices.Sorted(mapKeys(series.Tags)) {
			if value := series.Tags[key]; value != "" {
				tags = append(tags, sink.Tag{Key: key, Value: value})
			}
		}
		for _, values := range series.Values {
			row := sink.Row{Measurement: series.Name, Tags: tags}
			for i, value := range values {
				if value == nil {
					continue
				}
				if i == 0 {
					row.Time = time.Unix(0, integer(t, value)).UTC()
					continue
				}
				row.Fields = append(row.Fields, fieldOf(t, series.Columns[i], kinds[series.Columns[i]], value))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// kindsOf queries the types of a measurement's fields, because in JSON 1 and 1.0 are the same.
func kindsOf(server *servertest.Influx, measurement string) map[string]string {
	kinds := make(map[string]string)
	for _, series := range server.Query(fmt.Sprintf("SHOW FIELD KEYS FROM %q", measurement)) {
		for _, values := range series.Values {
			kinds[fmt.Sprint(values[0])] = fmt.Sprint(values[1])
		}
	}
	return kinds
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

func integer(t *testing.T, value any) int64 {
	t.Helper()
	n, err := value.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func fieldOf(t *testing.T, key, kind string, value any) sink.Field {
	t.Helper()
	switch kind {
	case "integer":
		return sink.Field{Key: key, Kind: sink.KindInt, Int: integer(t, value)}
	case "float":
		x, err := value.(json.Number).Float64()
		if err != nil {
			t.Fatal(err)
		}
		return sink.Field{Key: key, Kind: sink.KindFloat, Float: x}
	case "boolean":
		field := sink.Field{Key: key, Kind: sink.KindBool}
		if value.(bool) {
			field.Int = 1
		}
		return field
	default:
		return sink.Field{Key: key, Kind: sink.KindText, Text: value.(string)}
	}
}

// logged is a log that a test can wait for.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits until the log has the words.
func (l *logged) await(t *testing.T, words string) {
	t.Helper()
	for !strings.Contains(l.String(), words) {
		select {
		case <-l.news:
		case <-time.After(time.Minute):
			t.Fatalf("the log lacks %q:\n%s", words, l)
		}
	}
}
