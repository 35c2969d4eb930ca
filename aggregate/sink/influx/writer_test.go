package influx_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/influx"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/internal/influxtest"
)

// A Writer passes on the same points as a Sink, even if some among them are refused.
func TestWriter(t *testing.T) {
	server := influxtest.Start(t, influxtest.Options{})
	bad := sinktest.Event()
	server.Post(fmt.Sprintf("spate_event,kind=old text=1i %d", bad.Time.UnixNano()))
	w, err := influx.NewWriter(configOf(t, server), influx.DefaultPatience)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var want []sink.Row
	for window := range uint32(40) {
		rows := sinktest.Window(window).Rows()
		want = append(want, rows...)
		if window == 17 {
			rows = append(rows, bad.Rows()...)
		}
		if err := w.Write(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused, why := w.Refused()
	if w.Written() != len(want) || refused != 1 || why == nil ||
		!strings.Contains(why.Error(), "partial write: field type conflict") {
		t.Errorf("%d of %d written, %d refused: %v", w.Written(), len(want), refused, why)
	}
	sinktest.Equal(t, slices.DeleteFunc(rowsOf(t, server), isEvent), want)
}

// requests is a server that counts the lines of each write.
type requests struct {
	mu     sync.Mutex
	lines  []int
	status int
	hold   func()
}

func (r *requests) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, strings.Count(unzipped(q), "\n"))
	if r.hold != nil {
		r.hold()
	}
	w.WriteHeader(r.status)
}

func (r *requests) writer(t *testing.T) *influx.Writer {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	w, err := influx.NewWriter(influx.Config{URL: server.URL, Bucket: "b", Log: slog.New(slog.DiscardHandler)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestWriterBoundsItsRequests(t *testing.T) {
	r := &requests{status: http.StatusNoContent}
	w := r.writer(t)
	for range 12000 {
		if err := w.Write(t.Context(), sinktest.Event().Rows()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.lines, []int{5000, 5000, 2000}) || w.Written() != 12000 {
		t.Errorf("requests of %v lines, %d written", r.lines, w.Written())
	}
}

func TestWriterGivesUp(t *testing.T) {
	r := &requests{status: http.StatusServiceUnavailable}
	w := r.writer(t)
	if err := w.Write(t.Context(), sinktest.Event().Rows()); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "answers 503") || w.Written() != 0 {
		t.Errorf("Flush: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.hold = cancel
	if err := w.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush, cancelled: %v", err)
	}
}

// A Writer refuses a spool that a sink is still sending. It sends a spool that a sink has left once, and removes it.
func TestWriterSendsASpool(t *testing.T) {
	server := influxtest.Start(t, influxtest.Options{})
	spool := filepath.Join(t.TempDir(), "influx.spool")
	server.Kill()
	s, log := open(t, server, func(c *influx.Config) { c.Spool, c.QueueBytes = spool, 8<<10 })
	want := feed(s, 0, 20)
	log.await(t, "cannot be written to")
	w, err := influx.NewWriter(configOf(t, server), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Spool(t.Context(), spool); err == nil ||
		!strings.Contains(err.Error(), "another process is sending it") {
		t.Errorf("a spool in use: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var kept *influx.UndeliveredError
	if err := s.Close(ended); !errors.As(err, &kept) {
		t.Fatal(err)
	}
	if sent, err := w.Spool(t.Context(), spool); err == nil || sent != 0 {
		t.Errorf("a spool without a server: %d sent, %v", sent, err)
	}
	server.Restart()
	if sent, err := w.Spool(t.Context(), spool); err != nil || sent != kept.Kept {
		t.Errorf("%d of %d sent, %v", sent, kept.Kept, err)
	}
	if sent, err := w.Spool(t.Context(), spool); err != nil || sent != 0 {
		t.Errorf("no spool: %d sent, %v", sent, err)
	}
	if _, err := os.Stat(spool); !os.IsNotExist(err) {
		t.Errorf("the spool is still there: %v", err)
	}
	sinktest.Equal(t, rowsOf(t, server), want)
}
