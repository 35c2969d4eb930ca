package influx_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/internal/servertest"
)

// A Writer passes on the same points as a Sink, even if some among them are refused.
func TestWriter(t *testing.T) {
	server := servertest.StartInflux(t, servertest.InfluxOptions{})
	bad := sinktest.Event()
	server.Post(fmt.Sprintf("spate_event,kind=old text=1i %d", bad.Time.UnixNano()))
	w := delivery.NewWriter(database(t, configOf(t, server)), delivery.DefaultPatience, slog.New(slog.DiscardHandler))
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
