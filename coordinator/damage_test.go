package coordinator

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A coordinator that serves other runs survives a ledger with a page that points at itself, which used to end the
// process. It reports that the run is damaged, and continues to serve.
func TestDamagedLedgersEndNoCoordinator(t *testing.T) {
	r := newRig(t)
	id := r.stopped(t)
	if _, err := r.followAll(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.cfg.DataDir, id, ledger.File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	told, page := 0, os.Getpagesize()
	for at := 2 * page; at < len(whole); at += page {
		r.crash()
		if err := os.WriteFile(path, pointingAtItself(whole, at/page, page), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		err := followOnce(t, r.runs, id)
		list, listErr := r.runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{})
		if listErr != nil || len(list.GetRuns()) != 1 {
			t.Fatalf("page %d: runs %v, error %v", at/page, list, listErr)
		}
		if err != nil {
			told++
			if run := list.GetRuns()[0]; status.Code(err) != codes.FailedPrecondition ||
				!strings.Contains(err.Error(), "damaged") ||
				run.GetState() != spatev1.RunState_RUN_STATE_BROKEN || !strings.Contains(run.GetReason(), "damaged") {
				t.Errorf("page %d: error %v, listed as %v", at/page, err, run)
			}
		}
	}
	if told == 0 {
		t.Error("no page was one that matters")
	}
}

// followOnce reads a run's events until the stream ends, and returns the stream's error. A call over the connection to
// a killed coordinator is retried.
func followOnce(t *testing.T, runs spatev1.RunServiceClient, id string) error {
	t.Helper()
	for {
		stream, err := runs.FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: id})
		for err == nil {
			_, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if status.Code(err) != codes.Unavailable {
			return err
		}
	}
}

// pointingAtItself returns a ledger with a page that has one element: itself.
func pointingAtItself(whole []byte, page, size int) []byte {
	data := append([]byte(nil), whole...)
	head, native := data[page*size:], binary.NativeEndian
	native.PutUint64(head, uint64(page))
	native.PutUint16(head[8:], 1)  // a branch page
	native.PutUint16(head[10:], 1) // of one element
	native.PutUint32(head[12:], 0)
	native.PutUint32(head[16:], 16) // its key follows it
	native.PutUint32(head[20:], 4)
	native.PutUint64(head[24:], uint64(page))
	return data
}
