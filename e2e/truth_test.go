package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/measure"
)

// Measured times are those of the server: each request is joined by its X-Request-Id with the simulator's own times.
// Both use one clock, so a client that sees a first token before the server sent it is wrong, whatever the machine
// does.
func TestMeasuredTimesAreTheServers(t *testing.T) {
	server := programs.Simulate(t, 2, "--decode-step", "5ms")
	r := programs.Run(t, "--target", server.URLs[0], "--target", server.URLs[1], "--model", "m", "--isl", "80",
		"--osl", "20", "--concurrency", "6,12", "--requests", "60", "--warmup-requests", "8")
	r.MustExit(0)

	result := r.Results()
	rows := map[string]programs.Row{}
	for stage, all := range r.Rows() {
		for _, one := range all {
			rows[measure.RequestIDsOf(result.Run.ID, stage).String(one.Index, 0)] = one
		}
	}
	if len(rows) != 2*68 || !result.Run.Complete {
		t.Fatalf("%d requests, complete: %v", len(rows), result.Run.Complete)
	}
	truth := server.Records()
	if len(truth) != len(rows) {
		t.Errorf("the server had %d requests, the client sent %d", len(truth), len(rows))
	}
	var errors []time.Duration
	for _, s := range truth {
		c, known := rows[s.RequestID]
		if !known {
			t.Fatalf("the server had a request %q that was not sent, or had it twice", s.RequestID)
		}
		delete(rows, s.RequestID)
		errors = append(errors, time.Duration(*c.LastTokenNs-*c.FirstTokenNs-(s.LastTokenNs-s.FirstTokenNs)).Abs())
		measured, least := time.Duration(*c.FirstTokenNs-c.StartNs), time.Duration(s.FirstTokenNs-s.ReceivedNs)
		if measured < least-100*time.Microsecond {
			t.Errorf("request %s: TTFT %v, and the server took %v alone", s.RequestID, measured, least)
		}
		if *c.InputTokens != s.PromptTokens || s.PromptTokens != 80 || *c.OutputTokens != s.OutputTokens ||
			s.OutputTokens != 20 {
			t.Errorf("request %s: %d:%d tokens by the client, %d:%d by the server, 80:20 asked", s.RequestID,
				*c.InputTokens, *c.OutputTokens,
				s.PromptTokens, s.OutputTokens)
		}
	}
	slices.Sort(errors)
	median, p99 := errors[len(errors)/2], errors[len(errors)*99/100]
	t.Logf("first to last token against the server's: median error %v, p99 %v", median, p99)
	if median > time.Millisecond {
		t.Errorf("the time from first to last token is off by %v in the median", median)
	}
}
