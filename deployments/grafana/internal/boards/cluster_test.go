package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/influx"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/local"
	"github.com/spate-load/spate/internal/servertest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// plan has a closed and an open loop over two regions, an SLO that some requests miss, and a
// server that sometimes fails.
const plan = `
name: watched
seed: 3
on_agent_loss: degrade
slo: {e2e: 30ms}
targets:
  - name: server a
    endpoints: [%q, %q]
    model: m
    server_metrics: {}
workloads:
  - random: {isl: 40, osl_lengths: {uniform: {min: 3, max: 9}}}
loads:
  - {concurrency: [6], duration: 3s}
  - {rate: [120], duration: 4s}
`

// team lists the agents by region. The agent lost is ended in the first stage.
var team = map[string][]string{"eu": {"eu-1", "eu-2", "eu-3"}, "us": {"us-1", "us-2"}}

const lost = "eu-2"

// patience bounds every wait. No wait is expected to take long.
const patience = time.Minute

// cluster is a coordinator and its agents in this process, which write to a database.
type cluster struct {
	*local.Cluster
	coordinator *coordinator.Coordinator
	dataDir     string
	lose        string // the agent to end in the first stage; empty: none
}

// assemble starts coordinator and agents, which run until the test ends.
func assemble(t *testing.T, databases ...delivery.Database) *cluster {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	dataDir := t.TempDir()
	for _, d := range databases {
		t.Cleanup(d.Close)
	}
	c, err := coordinator.New(coordinator.Config{
		Name: "test", Version: "test", DataDir: dataDir, Logger: quiet,
		OpenSink: func(dir string) (sink.Sink, error) {
			return delivery.Open(delivery.Config{RunDir: dir, Log: quiet}, databases...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var agents []agent.Config
	for region, names := range team {
		for _, name := range names {
			agents = append(agents, agent.Config{Name: name, Region: region, Version: "test", Weight: 1, Logger: quiet,
				DatasetDir: dataDir, AgentsInProcess: 10})
		}
	}
	out, err := local.Start(c, agents, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return &cluster{Cluster: out, coordinator: c, dataDir: dataDir}
}

// run submits the plan, and returns the run's results.
func (c *cluster) run(t *testing.T) *results.Result {
	t.Helper()
	simulated := config.Default()
	simulated.Model.DecodeStep = 3 * time.Millisecond
	simulated.Faults = []config.Fault{{Kind: "500", Probability: 0.05, AfterTokens: 1},
		{Kind: "cut", Probability: 0.03, AfterTokens: 1}}
	server, err := simulator.Start(simulated, "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	submitted, err := spatev1.NewRunServiceClient(c.Conn()).SubmitRun(ctx, &spatev1.SubmitRunRequest{
		PlanYaml: fmt.Appendf(nil, plan, server.URLs()[0], server.URLs()[1]), PlanPath: "watched.yaml",
		MinAgents: uint32(len(team["eu"]) + len(team["us"])), AgentsTimeout: durationpb.New(patience),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.follow(ctx, t, submitted.GetRunId())
	result, err := report.Write(filepath.Join(c.dataDir, submitted.GetRunId()), report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// follow waits for the run's end, and ends the agent to be lost, if any, in the middle of the first stage.
func (c *cluster) follow(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	stream, err := spatev1.NewRunServiceClient(c.Conn()).FollowRun(ctx, &spatev1.FollowRunRequest{RunId: id})
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("the run does not end: %v", err)
		}
		e := m.GetEvent()
		if c.lose != "" && e.GetStageProgress().GetElapsed().AsDuration() > 1200*time.Millisecond {
			c.EndAgent(c.lose)
		}
		if ended := e.GetRunEnded(); ended != nil {
			t.Logf("run %s ended: %v", id, ended)
			return
		}
	}
}

// filled returns an InfluxDB that contains all points of a run, and the run's results.
func filled(t *testing.T) (*servertest.Influx, *results.Result) {
	t.Helper()
	db := servertest.StartInflux(t, servertest.InfluxOptions{})
	database, err := influx.New(influx.Config{URL: db.URL, Token: db.Token, Org: db.Org, Bucket: db.Database})
	if err != nil {
		t.Fatal(err)
	}
	c := assemble(t, database)
	c.lose = lost
	result := c.run(t)
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if len(db.Query(`SELECT "text" FROM "spate_event" WHERE "kind" = 'run_ended'`)) > 0 {
			return db, result
		}
		if time.Since(begin) > patience {
			t.Fatal("the end of the run is not written")
		}
	}
}

// filling maps variables to the text that Grafana puts into queries: several values in brackets, and for all values the
// variable's regular expression.
type filling map[string][]string

// special escapes characters as Grafana does in a value for a regular expression.
var special = strings.NewReplacer(`\`, `\\`, `^`, `\^`, `$`, `\$`, `*`, `\*`, `+`, `\+`, `?`, `\?`, `.`, `\.`, `(`,
	`\(`, `)`, `\)`, `|`, `\|`,
	`[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `/`, `\/`)

// into fills in a query, for the times of a run and intervals of a second.
func (f filling) into(query string, from, to time.Time) string {
	pairs := []string{
		"$timeFilter", fmt.Sprintf("time >= %dms and time <= %dms", from.UnixMilli(), to.UnixMilli()),
		"$__interval_ms", "1000", "$__interval", "1s",
	}
	for _, name := range []string{"baseline", "run", "target", "stage", "region"} {
		text := ".*"
		if values := f[name]; len(values) > 0 {
			escaped := make([]string, len(values))
			for i, v := range values {
				escaped[i] = special.Replace(v)
			}
			text = "(" + strings.Join(escaped, "|") + ")"
		}
		pairs = append(pairs, "$"+name, text)
	}
	return strings.NewReplacer(pairs...).Replace(query)
}
