package points

import (
	"errors"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ReplayEnded replays a run only after its end, when its coordinator has closed the ledger.
func TestReplayEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	record, ended := fixture.RunRecord(1), fixture.RunRecord(1)
	record.EndTime = nil
	l, err := ledger.Create(path, ledger.Change{Run: record, Submission: &spatev1.Submission{Name: "p"},
		Stages: []*spatev1.StageRecord{fixture.StageRecord(0, 2)}})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	replay := func(want bool) {
		t.Helper()
		got, err := ReplayEnded(path, func(r []sink.Row) error { rows += len(r); return nil })
		if got != want || err != nil || want != (rows > 0) {
			t.Errorf("ended %v, %d rows, %v; want %v", got, rows, err, want)
		}
	}
	replay(false) // the ledger is open
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	replay(false) // the run has no end
	if l, err = ledger.Open(path); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Put(ledger.Change{Run: proto.CloneOf(ended)}), l.Close()); err != nil {
		t.Fatal(err)
	}
	replay(true)
	full := errors.New("full")
	if _, err := ReplayEnded(path, func([]sink.Row) error { return full }); !errors.Is(err, full) {
		t.Errorf("an error of emit: %v", err)
	}
	if _, err := ReplayEnded(path+"x", nil); err == nil {
		t.Error("no ledger, no error")
	}
}
