package databases

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/influxtest"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/rundir"
	"github.com/spate-load/spate/internal/victoriatest"
)

// samples returns all samples of a server, by labels and time.
func samples(server *victoriatest.Server) map[string]string {
	all := map[string]string{}
	for _, series := range server.Export(`{__name__=~"spate_.+"}`) {
		for i, at := range series.Timestamps {
			all[fmt.Sprint(series.Metric["__name__"], " ", series.Metric, at)] = fmt.Sprint(series.Values[i])
		}
	}
	return all
}

// A run writes to two databases at once, and its results by remote write are those of results.json. An export of the
// run adds and changes nothing.
func TestRemoteWriteHasTheResults(t *testing.T) {
	t.Parallel()
	db, server := influxtest.Start(t, influxtest.Options{}), victoriatest.Start(t, "spate:secret")
	flags := []string{"--prometheus-url", server.URL + "/api/v1/write", "--prometheus-token", server.Token}
	r := programs.RunPlan(t, influxPlan, slices.Concat(db.Flags(), flags, []string{"--agents", "1"})...)
	r.MustExit(0)
	for _, name := range []string{"influx.incomplete", "prometheus.incomplete"} {
		if _, err := os.Stat(filepath.Join(r.Dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is there after the run: %v", name, err)
		}
	}
	stages := storedRows(t, db, "spate_stage")
	for _, stage := range r.Results().Stages {
		compareStored(t, stage, stages[fmt.Sprint(stage.Index)])
		selector := fmt.Sprintf(`{stage="%d",scope="all",__name__=~`, stage.Index)
		for _, c := range []struct {
			selector string
			want     float64
		}{
			{`"spate_stage_completed"}`, float64(stage.Requests.Completed)},
			{`"spate_stage_output_token_throughput"}`, *stage.OutputTokenThroughput},
			{`"spate_stage_ttft_seconds",quantile="0.99"}`, stage.TTFT.P99 / 1e3},
		} {
			got := server.Export(selector + c.selector)
			if len(got) != 1 || len(got[0].Values) != 1 {
				t.Errorf("%s: %v", c.selector, got)
				continue
			}
			rundir.Near(t, c.selector, got[0].Values[0], c.want, 1e-9)
		}
	}
	var live map[string]string
	// VictoriaMetrics may show new series up to a second late, even after a flush. The run's end is its last point.
	process.Eventually(t, "the run's last point can be read", func() bool {
		live = samples(server)
		return slices.ContainsFunc(slices.Collect(maps.Keys(live)), func(key string) bool {
			return strings.Contains(key, "kind:run_ended")
		})
	})
	p := process.Start(t, programs.Built.Spate, append([]string{"export", "prometheus", r.Dir}, flags...)...)
	p.MustExit(0)
	mustEqual(t, "exported over the live run", samples(server), live)
}
