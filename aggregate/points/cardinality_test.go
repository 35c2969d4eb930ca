package points

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// shape is the size of a run.
type shape struct{ stages, agents, regions, endpoints, servers, parts int }

// mostSeries and perSecond return the bounds in docs/influxdb.md.
func (s shape) mostSeries() int {
	whole := 1 + s.regions + s.endpoints + s.parts
	return 2*s.stages*(whole+s.agents) + s.stages*whole + s.agents + 3 + 3*s.stages + s.stages*s.servers
}

func (s shape) perSecond() int {
	return 2*(1+s.regions+s.agents+s.endpoints+s.parts) + s.agents + s.servers
}

// record returns a stage of the run, with a snapshot of each agent merged.
func (s shape) record(index int) (*spatev1.StageRecord, *merge.Stage) {
	rec := &spatev1.StageRecord{
		StartTime: timestamppb.New(begin),
		Stage: &spatev1.Stage{Index: uint32(index),
			Target: &spatev1.Target{Name: "t", ServerMetrics: &spatev1.ServerMetrics{}}},
	}
	for i := range s.endpoints + 3 { // more endpoints than views show, if s.endpoints is at the limit
		rec.Stage.Target.Endpoints = append(rec.Stage.Target.Endpoints, fmt.Sprintf("http://e%d", i))
	}
	for i := range s.agents {
		rec.Agents = append(rec.Agents, &spatev1.AssignedAgent{
			Agent:       &spatev1.AgentInfo{Name: fmt.Sprintf("a%d", i), Region: fmt.Sprintf("r%d", i%s.regions)},
			Incarnation: 1,
		})
	}
	if s.endpoints < 64 {
		rec.Stage.Target.Endpoints = rec.Stage.Target.Endpoints[:s.endpoints]
	}
	if s.parts > 0 {
		m := &spatev1.Mixture{}
		for i := range s.parts {
			m.Parts = append(m.Parts, &spatev1.Part{Workload: &spatev1.Workload{Name: fmt.Sprintf("p%d", i)}})
		}
		rec.Stage.Workload = &spatev1.Workload{Content: &spatev1.Workload_Mix{Mix: m}}
	}
	merged := merge.NewStage(rec)
	for i, a := range rec.GetAgents() {
		snapshot := &spatev1.Snapshot{
			Key:        &spatev1.SnapshotKey{Agent: a.GetAgent().GetName(), Incarnation: 1, Sequence: 1},
			StageIndex: uint32(index),
		}
		for e := range rec.GetStage().GetTarget().GetEndpoints() {
			snapshot.Series = append(snapshot.Series,
				&spatev1.Series{Endpoint: uint32(e), Counters: &spatev1.Counters{Started: 10, Failed: 10}})
		}
		if i == 0 {
			for n := range s.servers {
				snapshot.ServerSamples = append(snapshot.ServerSamples,
					&spatev1.ServerSample{Name: fmt.Sprintf("m%d", n)})
			}
		}
		err := merged.Add(snapshot)
		if err != nil {
			panic(err)
		}
	}
	return rec, merged
}

// points returns the points of all stages, and how many of them one second has.
func (s shape) points() (rows []sink.Row, second int) {
	run := Run{ID: "r", Plan: "p"}
	for index := range s.stages {
		rec, merged := s.record(index)
		view, _ := merged.Window(0)
		toDate, scope := merged.ToDate(), run.Scope(rec.GetStage())
		before := len(rows)
		for _, p := range windows(scope, rec, view, &toDate) {
			rows = append(rows, p.Rows()...)
		}
		for _, p := range servers(scope, rec, view) {
			rows = append(rows, p.Rows()...)
		}
		for _, a := range rec.GetAgents() {
			rows = append(rows, sink.AgentPoint{RunID: "r", Plan: "p", Agent: a.GetAgent().GetName(), Time: begin,
				SilentSeconds: new(0.5)}.Rows()...)
		}
		second = len(rows) - before
		for _, p := range stage(scope, rec, results.OfStage(merged, rec), merged.ToDateWithoutAgents()) {
			rows = append(rows, p.Rows()...)
		}
		var b Bursts
		if p, ok := b.See(run, scope, rec, view); ok {
			rows = append(rows, p.Rows()...)
		}
		rows = append(rows, s.events(run, rec.GetStage())...)
	}
	return rows, second
}

// events returns the points of a run's events around a stage, without losses.
func (s shape) events(run Run, st *spatev1.Stage) (rows []sink.Row) {
	for _, e := range []*spatev1.RunEvent{
		{Event: &spatev1.RunEvent_RunStarted{}}, {Event: &spatev1.RunEvent_RunEnded{}},
		{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{StageIndex: st.GetIndex()}}},
		{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{StageIndex: st.GetIndex()}}},
		{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{Severity: spatev1.Severity_SEVERITY_WARNING,
			Text: "w"}}},
		{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{Severity: spatev1.Severity_SEVERITY_INFO,
			Text: "nothing for sinks"}}},
	} {
		if p, ok := Event(run, e, func(uint32) *spatev1.Stage { return st }); ok {
			rows = append(rows, p.Rows()...)
		}
	}
	return rows
}

// The numbers of series per run and of points per second are those in docs/influxdb.md.
func TestCardinality(t *testing.T) {
	for _, s := range []shape{{1, 1, 1, 1, 0, 0}, {3, 7, 2, 4, 5, 2}, {2, 5, 3, 64, 0, 3}} {
		rows, second := s.points()
		series := map[string]bool{}
		for _, row := range rows {
			name, _, _ := strings.Cut(sinktest.Name(row), row.Time.UTC().String())
			series[name] = true
		}
		if len(series) != s.mostSeries() || second != s.perSecond() {
			t.Errorf("%+v: %d series, %d points a second, want %d and %d", s, len(series), second, s.mostSeries(),
				s.perSecond())
		}
	}
	document, err := os.ReadFile("../../docs/influxdb.md")
	if err != nil {
		t.Fatal(err)
	}
	example := shape{stages: 10, agents: 1000, regions: 3, endpoints: 4, servers: 48}
	for _, n := range []int{example.mostSeries(), example.perSecond()} {
		if text := fmt.Sprintf("%d,%03d", n/1000, n%1000); !strings.Contains(string(document), text) {
			t.Errorf("docs/influxdb.md lacks %s", text)
		}
	}
}

// No tag has the name of a field, because InfluxDB 3 stores both as columns of one table.
func TestTagsAreNoFields(t *testing.T) {
	rows, _ := shape{2, 3, 2, 2, 2, 2}.points()
	for _, row := range append(rows, append(sinktest.Window(1).Rows(), sinktest.Stage().Rows()...)...) {
		for _, tag := range row.Tags {
			for _, field := range row.Fields {
				if tag.Key == field.Key {
					t.Errorf("%s: %s is a tag and a field", row.Measurement, tag.Key)
				}
			}
		}
	}
}
