package databases

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/servertest"
)

// outagePlan sends requests at constant gaps. Their send delay shows whether anything delayed them.
const outagePlan = `
name: outage
seed: 9
targets:
  - name: server
    simulator: {endpoints: 2, decode_step: 2ms}
    server_metrics: {}
workloads:
  - random: {isl: 60, osl: 8}
loads:
  - rate: [100]
    arrival: constant
    duration: %s
`

// outageTime returns how long InfluxDB is down. `make influx-outage` makes it a minute.
func outageTime(t *testing.T) (length time.Duration, long bool) {
	t.Helper()
	text := os.Getenv("SPATE_TEST_OUTAGE")
	if text == "" {
		return 5 * time.Second, false
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return length, true
}

// outages are the ways in which InfluxDB is down for some time.
var outages = map[string]func(db *servertest.Influx, length time.Duration){
	"none": func(*servertest.Influx, time.Duration) {},
	"stopped": func(db *servertest.Influx, length time.Duration) {
		db.Pause()
		time.Sleep(length) // the outage itself: nothing is waited for
		db.Resume()
	},
	"killed": func(db *servertest.Influx, length time.Duration) {
		db.Kill()
		time.Sleep(length) // the outage itself: nothing is waited for
		db.Restart()
	},
}

// runThrough runs the plan while InfluxDB is down for some time in the middle, and returns the result. In the end
// InfluxDB has all points, as an export makes them, each once.
func runThrough(t *testing.T, outage string, length time.Duration) results.Result {
	t.Helper()
	db := servertest.StartInflux(t, servertest.InfluxOptions{})
	r := programs.RunPlan(t, fmt.Sprintf(outagePlan, length*3/2+3*time.Second), append(db.Flags(), "--agents", "1")...)
	process.Eventually(t, "a window is written",
		func() bool { return len(db.Query("SELECT completed FROM spate_window")) > 0 })
	outages[outage](db, length)
	select {
	case <-r.Ended():
	case <-time.After(2*length + process.Timeout):
	}
	r.MustExit(0)
	live := all(t, db)
	db.Drop()
	db.Create(0)
	export(t, r.Dir, db, 0)
	mustEqual(t, "written through an outage", without(live, "spate_agent "), without(all(t, db), "spate_agent "))
	compareWindows(t, db, r.Results())
	return r.Results()
}

// An InfluxDB that hangs, or dies, in the middle of a run loses no window and duplicates none. With SPATE_TEST_OUTAGE
// the outage has that length, and runs with and without an outage alternate, so that their send delays can be compared.
// The test logs the delays and does not judge them.
func TestInfluxDBAwayForSomeTime(t *testing.T) {
	t.Parallel()
	length, long := outageTime(t)
	if !long {
		for _, outage := range []string{"stopped", "killed"} {
			t.Run(outage, func(t *testing.T) { t.Parallel(); runThrough(t, outage, length) })
		}
		return
	}
	table := "outage     send delay p50     p99   p99.9     max (ms)   TTFT p99 (ms)\n"
	for _, outage := range []string{"none", "stopped", "none", "killed"} {
		stage := runThrough(t, outage, length).Stages[0]
		d := stage.SendDelay
		table += fmt.Sprintf("%-10s %14.3f %7.3f %7.3f %7.3f %15.3f\n", outage, d.P50, d.P99, d.P99_9, d.Max,
			stage.TTFT.P99)
	}
	t.Logf("InfluxDB away for %v in runs of %v at 100 requests a second:\n%s", length, length*3/2+3*time.Second, table)
}

// A coordinator that is killed while InfluxDB is down loses no point: at the end of the run, the restarted coordinator
// writes the run from its ledger. In the end no point is missing or duplicated.
func TestPointsOutliveTheirCoordinator(t *testing.T) {
	t.Parallel()
	length, long := outageTime(t)
	if !long {
		length = 3 * time.Second
	}
	db := servertest.StartInflux(t, servertest.InfluxOptions{})
	c := programs.StartLasting(t, nil, db.Flags()...)
	c.StartAgents("north")
	r, _ := c.RateRun("fail", int((length + 10*time.Second).Seconds()), 1)
	process.Eventually(t, "a window is written",
		func() bool { return len(db.Query("SELECT completed FROM spate_window")) > 0 })
	db.Kill()
	c.Coordinator.Await("the database cannot be written to")
	time.Sleep(length) // the outage itself: nothing is waited for
	dir := c.RunDir()
	c.KillCoordinator()
	c.StartCoordinator()
	db.Restart()
	r.MustExit(0)
	process.Eventually(t, "the run's end is written", func() bool {
		return len(db.Query("SELECT text FROM spate_event WHERE kind = 'run_ended'")) > 0
	})
	process.Eventually(t, "the run is written from its ledger", func() bool {
		_, err := os.Stat(filepath.Join(dir, "influx.incomplete"))
		return os.IsNotExist(err)
	})
	live := all(t, db)
	c.Coordinator.Signal(syscall.SIGTERM)
	c.Coordinator.Exit()
	db.Drop()
	db.Create(0)
	export(t, dir, db, 0)
	mustEqual(t, "written by two coordinators", without(live, "spate_agent "), without(all(t, db), "spate_agent "))
	compareWindows(t, db, r.Results())
}
