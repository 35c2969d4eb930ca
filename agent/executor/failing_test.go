package executor

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ended returns a request that lasted from one second to another.
func ended(from, to int, class spatev1.ErrorClass) *stream.Observation {
	o := &stream.Observation{Start: clock.Instant(from) * clock.Instant(time.Second),
		End: clock.Instant(to) * clock.Instant(time.Second)}
	if class != 0 {
		o.Err = &stream.Error{Class: class, Message: "refused"}
	}
	return o
}

func TestDeadCheck(t *testing.T) {
	const connect, tls, http = spatev1.ErrorClass_ERROR_CLASS_CONNECT, spatev1.ErrorClass_ERROR_CLASS_TLS,
		spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS
	repeat := func(n int, o *stream.Observation) (all []*stream.Observation) {
		for range n {
			all = append(all, o)
		}
		return all
	}
	for name, c := range map[string]struct {
		before    []*stream.Observation
		lastToken clock.Instant
		dead      bool // after one more failure, from second 9 to 10
	}{
		"long and many":        {before: repeat(9, ended(5, 6, tls)), dead: true},
		"too few":              {before: repeat(8, ended(5, 6, connect))},
		"too short":            {before: repeat(50, ended(8, 9, connect))},
		"an answer in between": {before: append(repeat(9, ended(5, 6, connect)), ended(5, 7, http))},
		"a cancelled one in between": {before: append(repeat(9, ended(5, 6, connect)),
			&stream.Observation{Cancelled: true}), dead: true},
		"a token since then": {before: repeat(9, ended(5, 6, connect)),
			lastToken: clock.Instant(7 * time.Second)},
		"a token of long ago": {before: repeat(9, ended(5, 6, connect)),
			lastToken: clock.Instant(2 * time.Second), dead: true},
		"a row only after an answer": {before: append([]*stream.Observation{ended(1, 2, 0)},
			repeat(9, ended(5, 6, connect))...), dead: true},
		"failures of a sound server":  {before: repeat(50, ended(1, 2, http))},
		"nothing but the one failure": {},
	} {
		p := deadCheck{minTime: 5 * time.Second}
		last := func() clock.Instant { return c.lastToken }
		for _, o := range c.before {
			if why := p.observe(o, last); why != "" {
				t.Fatalf("%s: dead too early: %s", name, why)
			}
		}
		why := p.observe(ended(9, 10, connect), last)
		if (why != "") != c.dead {
			t.Errorf("%s: %q", name, why)
		}
		if c.dead && why != "no connection in 5s and 10 attempts: refused" {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestRestAfterFailures(t *testing.T) {
	w := &worker{}
	for i, c := range []struct {
		o    *stream.Observation
		want time.Duration // after the request's end
	}{
		{ended(0, 1, 0), 0},
		{ended(0, 1, spatev1.ErrorClass_ERROR_CLASS_CONNECT), 100 * time.Millisecond},
		{ended(0, 1, spatev1.ErrorClass_ERROR_CLASS_CONNECT), 200 * time.Millisecond},
		{ended(0, 1, spatev1.ErrorClass_ERROR_CLASS_TLS), 400 * time.Millisecond},
		{ended(0, 1, spatev1.ErrorClass_ERROR_CLASS_CONNECT), 800 * time.Millisecond},
		{ended(0, 1, spatev1.ErrorClass_ERROR_CLASS_CONNECT), time.Second},
		{ended(0, 1, spatev1.ErrorClass_ERROR_CLASS_CONNECT), time.Second},
		{ended(0, 1, spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS), 0},
		{ended(1, 1, spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS), time.Millisecond},
		{ended(0, 1, spatev1.ErrorClass_ERROR_CLASS_CONNECT), 100 * time.Millisecond},
	} {
		w.observation = *c.o
		if got := w.freeAt().Sub(c.o.End); got != c.want {
			t.Errorf("request %d: rests %v, not %v", i, got, c.want)
		}
	}
}

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
	load := &spatev1.LoadPoint{Concurrency: 8, Requests: 200}
	refuses := func(all bool) *enginetest.Engine {
		if all {
			return newEngine(t, time.Millisecond, http.StatusUnauthorized)
		}
		e := newEngine(t, time.Millisecond, 0)
		e.Fails = map[string]int{}
		for i := range 200 {
			if i%10 > 0 {
				e.Fails[measure.RequestIDsOf("r", 0).String(uint64(i), 0)] = http.StatusUnauthorized
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
		t.Run(name, virtual(func(t *testing.T) {
			assign := enginetest.AssignOf(enginetest.StageOf(load, refuses(c.all)), 0)
			assign.Stage.FailFast = c.failFast
			o := begin(t, assign, ready.Limits{}).Wait(t)
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
		}))
	}
}

func TestRateBeyondTheAgentsLimit(t *testing.T) {
	stripe := &spatev1.Stripe{Weights: []uint32{1, 1}}
	if err := (ready.Limits{MaxRate: 50}).CheckRate(100, stripe); err != nil {
		t.Error(err)
	}
	if err := (ready.Limits{}).CheckRate(1e9, stripe); err != nil {
		t.Error(err)
	}
	err := (ready.Limits{MaxRate: 50}).CheckRate(101, stripe)
	if err == nil || !strings.HasPrefix(err.Error(),
		"the stripe has up to 50.5 requests per second (101 over all agents), this agent's limit is 50:") {
		t.Error(err)
	}
}

// The load must end at the first request that is one too many in its second, and only one reason is returned.
func TestRateCheckAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]float64{0, 0.5, 1, 3, 3.5}).Draw(t, "most")
		p := rateCheck{max: most}
		var at time.Duration
		count := map[time.Duration]int{}
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 900).Draw(t, "later")) * time.Millisecond
			second := at / time.Second
			count[second]++
			want := most > 0 && count[second] == int(most)+1
			if got := p.countStart(at); (got != "") != want {
				t.Fatalf("request %d of second %d: %q", count[second], second, got)
			}
		}
	})
}

func TestRateCheckOfStragglers(t *testing.T) {
	p := rateCheck{max: 2}
	for i, at := range []time.Duration{5 * time.Second, 4 * time.Second, -time.Second} {
		if why := p.countStart(at); (why != "") != (i == 2) {
			t.Errorf("request %d: %q", i, why)
		}
	}
}

func BenchmarkRateCheck(b *testing.B) {
	p := rateCheck{max: 1e9}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.countStart(time.Second)
		}
	})
}
