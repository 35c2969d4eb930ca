package agent

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A process that was stopped until after its lease has its alarms late, as here, where there is none: what was due meanwhile it does not start,
// as another agent may have that by then. It ends as one does whose lease has ended.
func TestNothingStartsAfterTheLeaseThoughItsAlarmIsLate(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"open":   {Rate: 200, Arrival: "constant", Duration: durationpb.New(time.Hour)},
		"closed": {Concurrency: 3, Duration: durationpb.New(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCoordinator(t)
			c.start(Config{})
			c.next()
			e := newEngine(t, time.Millisecond, 0)
			a := assignOf(stageOf(load, e), 0, 1)
			c.begin(a)
			eventually(t, "load", func() bool { return len(e.requests()) > 5 })
			c.setMute(true)
			d := c.agent.desk
			d.mu.Lock()
			d.alarm.Stop()
			d.lease.renewed, d.current.given = d.lease.renewed.Add(-time.Hour), d.current.given.Add(-time.Hour)
			end, _ := d.lease.of(d.current)
			d.current.load.leaseEnd.Store(int64(end))
			begun := len(e.requests())
			d.mu.Unlock()
			failure := c.totals(0).GetFailure()
			if !strings.Contains(failure, "longer than the lease") {
				t.Errorf("failure %q", failure)
			}
			if late := len(e.requests()) - begun; late > 10 { // which were on their way
				t.Errorf("%d requests were started after the lease", late)
			}
		})
	}
}
