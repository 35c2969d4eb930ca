package executor

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// An agent that reads servers does not keep waiting if its load is stopped or has failed.
func TestWaitForOtherAgentsEnds(t *testing.T) {
	t.Run("with a stop", func(t *testing.T) {
		e := enginetest.New(t, time.Millisecond, 0)
		e.CountsEnded = true
		u := begin(
			t,
			enginetest.ReadingServers(
				enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Requests: 10}, e), 0),
			),
			ready.Limits{},
		)
		enginetest.Eventually(t, "end of the load", func() bool { return u.AwaitsOthers() })
		u.Stop(false, true)
		if o := u.Wait(t); o.Totals.GetStopped() {
			t.Error("a load that has ended was stopped")
		}
	})
	t.Run("with a failure", func(t *testing.T) {
		e := enginetest.New(t, time.Millisecond, 0)
		e.CountsEnded = true
		load := &spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(time.Hour)}
		u := begin(t, enginetest.ReadingServers(enginetest.AssignOf(enginetest.StageOf(load, e), 0)), ready.Limits{})
		enginetest.Eventually(t, "requests", func() bool { return len(e.Requests()) > 2 })
		u.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "broken")
		if o := u.Wait(t); len(o.snapshots[len(o.snapshots)-1].GetServerAccounts()) != 0 {
			t.Error("a load that failed has an account")
		}
	})
}

// If the plan does not ask for metrics, a server without any is noted once and not asked again.
func TestServersWithoutMetricsAreNoted(t *testing.T) {
	e, f := enginetest.New(t, time.Millisecond, 0), enginetest.New(t, time.Millisecond, 0)
	a := enginetest.ReadingServers(
		enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 2}, e, f), 0),
	)
	u := begin(t, a, ready.Limits{})
	note := strings.Join(u.Preparation.GetNotes(), " ")
	if want := "No server metrics at " + e.URL +
		"/metrics and 1 more, so results lack"; !strings.Contains(note, want) {
		t.Errorf("noted: %q", note)
	}
	questions := e.Questions()
	if o := u.Wait(t); o.Totals.GetFailure() != "" || e.Questions() != questions {
		t.Errorf("%v; asked %d times more", o.Totals, e.Questions()-questions)
	}
}

// Requests of a warm-up are not in the account, except those in flight at its end.
func TestAccountStartsAfterTheWarmUp(t *testing.T) {
	e := enginetest.New(t, 100*time.Millisecond, 0)
	e.CountsEnded = true
	u := begin(
		t,
		enginetest.ReadingServers(
			enginetest.AssignOf(
				enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 3, WarmupRequests: 2}, e),
				0,
			),
		),
		ready.Limits{},
	)
	enginetest.Eventually(t, "end of the load", func() bool { return u.AwaitsOthers() })
	u.EndWait()
	o := u.Wait(t)
	accounts := o.snapshots[len(o.snapshots)-1].GetServerAccounts()
	if n := enginetest.CountedRequests(t, accounts); n != 3 ||
		accounts[0].GetFromNs() < (150*time.Millisecond).Nanoseconds() {
		t.Errorf("%d requests from %v on", n, time.Duration(accounts[0].GetFromNs()))
	}
}
