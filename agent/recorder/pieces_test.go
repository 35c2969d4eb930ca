package recorder

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Sealing a window in pieces gives the same result.
func TestSealingYields(t *testing.T) {
	const requests, gaps = 1000, 20
	for _, records := range []bool{false, true} {
		var sealed [2][]*spatev1.Snapshot
		times := 0
		for i, yield := range []func(){nil, func() { times++ }} {
			tape := newTape(2, 2, records)
			tape.config.Yield = yield
			for n := range requests {
				q, o := fullRequest()
				q.Index, q.Endpoint = uint64(n*7919%requests), n%2
				o.Frames = o.Frames[:0]
				for i := range gaps + 1 {
					o.Frames = append(o.Frames, stream.NewFrame(at(time.Duration(i*n)), true, true))
				}
				tape.Shard(n).RecordStart(q, o.Start)
				tape.Shard(n).RecordEnd(q, o)
			}
			tape.turn(at(2 * time.Second))
			tape.Seal(at(2 * time.Second))
			sealed[i] = tape.snapshots
		}
		if diff := cmp.Diff(sealed[0], sealed[1], protocmp.Transform()); diff != "" {
			t.Fatalf("records %t: the window became another (-want +got):\n%s", records, diff)
		}
		// Each list of gaps alone takes several pieces.
		if least := requests * gaps / breakAfter; times < least {
			t.Errorf("records %t: gave way %d times, want %d at least", records, times, least)
		}
		if records && times < requests*sizing/breakAfter {
			t.Errorf("gave way %d times though there are rows", times)
		}
	}
}
