package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/rundir"
)

// A run that stands still while answers arrive measures each frame's own time with --packet-times, and only then.
func TestPacketTimesOfAStoppedRun(t *testing.T) {
	streamtest.NeedPackets(t)
	const slots, osl = 4, 60
	for _, packets := range []bool{true, false} {
		server := programs.Simulate(t, 1, "--decode-step", "10ms")
		args := []string{"--target", server.URLs[0], "--model", "m", "--isl", "20", "--osl",
			fmt.Sprint(osl), "--concurrency", fmt.Sprint(slots), "--requests", fmt.Sprint(6 * slots), "--agents", "1"}
		if packets {
			args = append(args, "--packet-times")
		}
		r := programs.Run(t, args...)
		server.AwaitAnswers(slots)
		r.Signal(syscall.SIGSTOP)
		server.AwaitAnswers(server.Answers() + slots - 1) // one slot may be between two requests
		r.Signal(syscall.SIGCONT)
		r.MustExit(0)
		s := r.Results().Stages[0].Streams
		together := 0
		rows := r.Rows()[0]
		for _, row := range rows {
			together += tightGaps(row)
		}
		t.Logf("packets %v: %d of %d gaps below 0.1 ms, %+v", packets, together, len(rows)*(osl-1), s)
		if packets && (s.CoalescedReads > 0 || s.PacketFrames != s.Frames || together >= osl/2) {
			t.Errorf("%d reads of several frames, %d of %d frames by packets, %d frames without a gap before them",
				s.CoalescedReads, s.PacketFrames, s.Frames, together)
		}
		if !packets && (s.CoalescedReads == 0 || s.PacketFrames != 0 || together < osl/2) {
			t.Errorf("the test does not make the run late: %d reads of several frames", s.CoalescedReads)
		}
	}
}

// tightGaps counts the gaps of a request that no server made: its frames are 10 ms apart.
func tightGaps(row rundir.Row) (n int) {
	for _, gap := range row.ITLNs {
		if gap < 100_000 {
			n++
		}
	}
	return n
}
