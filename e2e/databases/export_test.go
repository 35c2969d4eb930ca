package databases

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/servertest"
)

// exportPlan has errors and two stages.
const exportPlan = `
name: exported
seed: 6
targets:
  - name: server
    simulator: {endpoints: 2, decode_step: 2ms, decode_step_per_request: 1ms}
workloads:
  - random: {isl: 60, osl: 8}
loads:
  - concurrency: [4]
    duration: 2500ms
  - rate: [40]
    duration: 1200ms
`

// all returns everything in a database: values by measurement, tags, time and field.
func all(t *testing.T, db *servertest.Influx) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, series := range db.Query("SELECT * FROM /^spate_/ GROUP BY *") {
		name := series.Name
		for _, key := range slices.Sorted(maps.Keys(series.Tags)) {
			name += fmt.Sprintf(" %s=%s", key, series.Tags[key])
		}
		for _, values := range series.Values {
			for i, column := range series.Columns[1:] {
				if values[i+1] != nil {
					rows[fmt.Sprintf("%s %v %s", name, values[0], column)] = fmt.Sprint(values[i+1])
				}
			}
		}
	}
	return rows
}

// without removes rows whose names contain a text.
func without(rows map[string]string, part string) map[string]string {
	rows = maps.Clone(rows)
	maps.DeleteFunc(rows, func(name, _ string) bool { return strings.Contains(name, part) })
	return rows
}

// mustEqual fails the test with the first differences.
func mustEqual(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	differences := 0
	for _, name := range slices.Sorted(maps.Keys(union(got, want))) {
		if got[name] == want[name] {
			continue
		}
		if differences++; differences < 6 {
			t.Errorf("%s: %s is %q, want %q", what, name, got[name], want[name])
		}
	}
	if differences > 0 || len(want) == 0 {
		t.Fatalf("%s: %d of %d values differ", what, differences, len(want))
	}
}

func union(a, b map[string]string) map[string]string {
	a = maps.Clone(a)
	maps.Copy(a, b)
	return a
}

// export runs `spate runs export` and returns the process after it has ended with the given exit code.
func export(t *testing.T, dir string, db *servertest.Influx, code int) *process.Process {
	t.Helper()
	return exportTo(t, dir, code, db.Flags()...)
}

// exportTo is export with the flags that say where to.
func exportTo(t *testing.T, dir string, code int, flags ...string) *process.Process {
	t.Helper()
	p := process.Start(t, programs.Built.Spate, append([]string{"runs", "export", dir}, flags...)...)
	if got := p.Exit(); got != code {
		t.Fatalf("spate runs export exits with %d, want %d", got, code)
	}
	return p
}

// An export of a run that was written live overwrites it: no point is new, and none is different.
func TestExportWritesTheSamePoints(t *testing.T) {
	t.Parallel()
	db := servertest.StartInflux(t, servertest.InfluxOptions{Token: "admin:secret"})
	r := programs.RunPlan(t, influxPlan, append(db.Flags(), "--agents", "1")...)
	r.MustExit(0)
	live := all(t, db)
	p := export(t, r.Dir, db, 0)
	mustEqual(t, "exported over the live run", all(t, db), live)
	if !strings.Contains(p.Stdout.String(), " points of run ") {
		t.Error("nothing says how many points were written")
	}
	for _, measurement := range []string{"spate_window ", "spate_to_date ", "spate_stage ", "spate_event ",
		"spate_agent "} {
		if len(without(live, measurement)) == len(live) {
			t.Errorf("the live run wrote nothing of %s", measurement)
		}
	}
	db.Drop()
	db.Create(0)
	export(t, r.Dir, db, 0)
	exported := all(t, db)
	mustEqual(t, "exported to an empty database", without(exported, "spate_agent "), without(live, "spate_agent "))
	if starts := len(exported) - len(without(exported, "start_error_ms")); starts != 2 {
		t.Errorf("%d start errors, want those of one agent in two stages", starts)
	}
	export(t, r.Dir, db, 0)
	mustEqual(t, "exported again", all(t, db), exported)
}

// The same holds for several agents, by region. Only the numbers to date may be missing from a live
// window, if the agents did not keep step.
func TestExportWritesRegions(t *testing.T) {
	t.Parallel()
	db := servertest.StartInflux(t, servertest.InfluxOptions{})
	r := programs.RunPlan(t, exportPlan, append(db.Flags(), "--agents", "eu=3,us=1")...)
	r.MustExit(0)
	live := all(t, db)
	export(t, r.Dir, db, 0)
	exported := all(t, db)
	mustEqual(t, "all but what came to date", without(exported, "_to_date "), without(live, "_to_date "))
	for name, value := range live {
		if strings.HasPrefix(name, "spate_to_date ") && exported[name] != value {
			t.Fatalf("%s is %q, was %q", name, exported[name], value)
		}
	}
	for _, part := range []string{"region=us run=", "agent=eu-1"} {
		if len(without(exported, part)) == len(exported) {
			t.Errorf("nothing of %s", part)
		}
	}
}

// An export of a run that could not deliver its points is complete, and the run directory no longer waits for it.
func TestExportCompletesALiveRun(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, influxPlan, "--agents", "1", "--sink", "influx+"+programs.ClosedPort(t)+"?bucket=spate")
	r.MustExit(0)
	db := servertest.StartInflux(t, servertest.InfluxOptions{})
	export(t, r.Dir, db, 0)
	if _, err := os.Stat(filepath.Join(r.Dir, "influx.incomplete")); !os.IsNotExist(err) {
		t.Errorf("the run directory still notes that InfluxDB lacks points: %v", err)
	}
	stages := storedRows(t, db, "spate_stage")
	for _, stage := range r.Results().Stages {
		compareStored(t, stage, stages[fmt.Sprint(stage.Index)])
	}
	compareWindows(t, db, r.Results())
}

func TestExportRefuses(t *testing.T) {
	t.Parallel()
	db := servertest.StartInflux(t, servertest.InfluxOptions{})
	r := programs.RunPlan(t, influxPlan, "--agents", "1")
	r.MustExit(0)
	for _, c := range []struct {
		name string
		dir  string
		args []string
		code int
		want string
	}{
		{"no run directory", t.TempDir(), db.Flags(), 2, "is not a run directory"},
		{"no URL", r.Dir, nil, 2, "give one database"},
		{"no server", r.Dir, []string{"--sink", "influx+" + programs.ClosedPort(t) + "?bucket=b"}, 2, "cannot be reached"},
		{"no such database", r.Dir, []string{"--sink", db.Sink(db.URL, "nowhere")}, 2, `no bucket "nowhere"`},
		{"no such file", r.Dir, []string{"--sink", "influx+https://127.0.0.1:1?bucket=b&ca=missing.pem"}, 2, "ca: "},
	} {
		p := exportTo(t, c.dir, c.code, c.args...)
		if !strings.Contains(p.Stderr.String(), c.want) {
			t.Errorf("%s: it says %q, want %q", c.name, p.Stderr.String(), c.want)
		}
	}
	db.Drop()
	db.Create(time.Hour)
	// none of the two stages can be written, as a whole and for each of two endpoints
	db.Write("spate_stage,run=old complete=1i", 0)
	p := export(t, r.Dir, db, 3)
	if !strings.Contains(p.Stderr.String(), "6 points were refused, the ledger has them") {
		t.Errorf("it says %q", p.Stderr.String())
	}
	compareWindows(t, db, r.Results())
}
