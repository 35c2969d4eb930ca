package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/e2e/programs"
)

// A run that stands still while answers arrive measures each frame's own time by default, and not with
// --packet-times off.
func TestPacketTimesOfAStoppedRun(t *testing.T) {
	streamtest.NeedPackets(t)
	const slots, osl = 4, 60
	t.Parallel()
	for _, packets := range []bool{true, false} {
		t.Run(fmt.Sprint(packets), func(t *testing.T) {
			t.Parallel()
			server := programs.Simulate(t, 1, "--decode-step", "10ms", "--truth-tokens")
			args := []string{"--target", server.URLs[0], "--model", "m", "--isl", "20", "--osl",
				fmt.Sprint(osl), "--concurrency", fmt.Sprint(slots), "--requests", fmt.Sprint(3 * slots), "--agents", "1"}
			if !packets {
				args = append(args, "--packet-times", "off")
			}
			r := programs.Run(t, args...)
			server.AwaitAnswers(slots)
			r.Signal(syscall.SIGSTOP)
			server.AwaitAnswers(server.Answers() + slots - 1) // one slot may be between two requests
			r.Signal(syscall.SIGCONT)
			r.MustExit(0)
			s := r.Results().Stages[0].Streams
			together, sentSo := 0, 0
			rows := r.Rows()[0]
			for _, row := range rows {
				together += tight(row.ITLNs)
			}
			for _, sent := range server.Records() {
				sentSo += tight(gaps(sent.TokensNs))
			}
			t.Logf("packets %v: %d of %d gaps below 0.1 ms, %d as sent, %+v", packets, together, len(rows)*(osl-1), sentSo, s)
			if packets && (s.PacketFrames != s.Frames || together-sentSo > slots) {
				t.Errorf("%d of %d frames by packets, %d frames without a gap before them, %d sent so",
					s.PacketFrames, s.Frames, together, sentSo)
			}
			if !packets && (s.CoalescedReads == 0 || s.PacketFrames != 0 || together < osl/2) {
				t.Errorf("the test does not make the run late: %d reads of several frames", s.CoalescedReads)
			}
		})
	}
}

// gaps returns the times between instants.
func gaps(at []int64) (ns []int64) {
	for i := 1; i < len(at); i++ {
		ns = append(ns, at[i]-at[i-1])
	}
	return ns
}

// tight counts the gaps below 0.1 ms. Frames are 10 ms apart, unless the server is late.
func tight(ns []int64) (n int) {
	for _, gap := range ns {
		if gap < 100_000 {
			n++
		}
	}
	return n
}
