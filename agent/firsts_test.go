package agent

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestHopelessCheck(t *testing.T) {
	status := func(n int) *stream.Observation {
		return &stream.Observation{Err: &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, HTTPStatus: n,
			Message: "no"}}
	}
	html := &stream.Observation{Err: &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, Message: "html"}}
	for name, c := range map[string]struct {
		other    *stream.Observation // the fifth of the first requests
		hopeless bool
	}{
		"all in one way":   {status(401), true},
		"another status":   {status(500), false},
		"another class":    {html, false},
		"one that is fine": {&stream.Observation{}, false},
		"one that was cut": {&stream.Observation{Cancelled: true}, false},
	} {
		var f hopelessCheck
		why := ""
		for i := range hopelessAfter {
			o := status(401)
			if i == 4 {
				o = c.other
			}
			if !f.countStart() || why != "" {
				t.Fatalf("%s: request %d is none of the first, or was not waited for: %q", name, i, why)
			}
			why = f.ended(o)
		}
		if f.countStart() || (why != "") != c.hopeless || c.hopeless && !strings.HasSuffix(why, ": no") {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// TestHopelessTarget: a load ends soon if the server refuses everything. It runs to its end if the server refuses only
// some requests, or if it was told to.
func TestHopelessTarget(t *testing.T) {
	t.Parallel()
	load := &spatev1.LoadPoint{Concurrency: 8, Requests: 200}
	refuses := func(all bool) *enginetest.Engine {
		if all {
			return enginetest.New(t, time.Millisecond, http.StatusUnauthorized)
		}
		e := enginetest.New(t, time.Millisecond, 0)
		e.Fails = map[string]int{}
		for i := range 200 {
			if i%10 > 0 {
				e.Fails[fmt.Sprintf("r-0-%d", i)] = http.StatusUnauthorized
			}
		}
		return e
	}
	for name, c := range map[string]struct {
		all, failFast, ends bool
	}{
		"refuses all":          {true, true, true},
		"refuses all, and yet": {true, false, false},
		"refuses some":         {false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assign := enginetest.AssignOf(enginetest.StageOf(load, refuses(c.all)), 0)
			assign.Stage.FailFast = c.failFast
			o := Begin(t, assign, ready.Limits{}).Wait(t)
			failed, why := o.Totals.GetCounters().GetFailed(), o.Totals.GetFailure()
			if !c.ends {
				if why != "" || o.Totals.GetCounters().GetStarted() != 200 {
					t.Errorf("%q, counters %v", why, o.Totals.GetCounters())
				}
				return
			}
			if failed < hopelessAfter || failed > 3*hopelessAfter ||
				!strings.HasPrefix(why, "target T is hopeless: its first 20 requests all failed in the same way: ") ||
				!strings.Contains(why, "no") ||
				o.Totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD {
				t.Errorf("%d failed, %q", failed, why)
			}
		})
	}
}
