package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a row of an answer, with the tags of its series.
type row map[string]any

// answer returns the rows of a query's answer that hold any value.
func answer(db *servertest.Influx, query string) (all []row) {
	for _, s := range db.Query(query) {
		for _, values := range s.Values {
			r, says := row{}, false
			for tag, value := range s.Tags {
				r[tag] = value
			}
			for i, column := range s.Columns {
				r[column] = values[i]
				says = says || i > 0 && values[i] != nil
			}
			if says {
				all = append(all, r)
			}
		}
	}
	return all
}

// number returns a value of a row, or NaN if there is none.
func (r row) number(column string) float64 {
	text, ok := r[column].(json.Number)
	if !ok {
		return math.NaN()
	}
	value, err := text.Float64()
	if err != nil {
		return math.NaN()
	}
	return value
}

// watched is a database with a run in it.
type watched struct {
	*testing.T
	db       *servertest.Influx
	result   *results.Result
	from, to time.Time
	chosen   filling
}

// panel runs the queries of a panel.
func (w watched) panel(file, title string) (all []row) {
	w.Helper()
	for _, f := range All() {
		for _, p := range f.Board.Panels {
			if f.Name != file || p.Title != title {
				continue
			}
			for _, target := range p.Targets {
				all = append(all, answer(w.db, w.chosen.into(target.Query, w.from, w.to))...)
			}
			return all
		}
	}
	w.Fatalf("%s has no panel %q", file, title)
	return nil
}

// One real run fills a real InfluxDB. Then every query of every dashboard runs as Grafana would send it.
func TestDashboardsShowARealRun(t *testing.T) {
	from := time.Now().Add(-time.Minute)
	db, result := filled(t)
	w := watched{T: t, db: db, result: result, from: from, to: time.Now().Add(time.Minute),
		chosen: filling{"run": {result.Run.ID}, "baseline": {result.Run.ID}}}
	if len(result.Stages) != 2 || result.Run.Complete {
		t.Fatalf("%d stages, complete %v: want two, without what the lost agent had", len(result.Stages),
			result.Run.Complete)
	}
	w.everyQueryAnswers()
	w.variablesChoose()
	w.annotationsMark()
	w.finalValues()
	w.stagesSoFar()
	w.countsAddUp()
	w.regions()
	w.agents()
	w.wentWrong()
}

// wentWrong checks that the end of a run or a stage is listed as a problem only if it has a reason. It runs last,
// because it writes an event.
func (w watched) wentWrong() {
	ends := func() (texts []string) {
		for _, r := range w.panel("compare.json", "What went wrong") {
			if r["kind"] == "run_ended" || r["kind"] == "stage_ended" {
				texts = append(texts, fmt.Sprint(r["text"]))
			}
		}
		return texts
	}
	if regular := ends(); len(regular) > 0 {
		w.Errorf("regular ends of a run and its stages went wrong: %q", regular)
	}
	w.db.Write(fmt.Sprintf(`spate_event,kind=stage_ended,run=%[1]s text="the target is dead"
spate_event,kind=run_ended,run=%[1]s text="stopped on request"`, w.result.Run.ID), time.Second)
	stopped := ends()
	if slices.Sort(stopped); !slices.Equal(stopped, []string{"stopped on request", "the target is dead"}) {
		w.Errorf("of a run that was stopped it says %q", stopped)
	}
}

// everyQueryAnswers runs all queries, with all chosen and with values chosen. The tags in each alias must be in the
// answer.
func (w watched) everyQueryAnswers() {
	for _, file := range All() {
		for _, panel := range file.Board.Panels {
			for _, target := range panel.Targets {
				for _, chosen := range []filling{w.chosen, {"run": {w.result.Run.ID}, "baseline": {w.result.Run.ID},
					"target": {"server a"}, "stage": {"0", "1"}, "region": {"eu", "us"}}} {
					rows := answer(w.db, chosen.into(target.Query, w.from, w.to))
					if len(rows) == 0 {
						w.Errorf("%s, %s: nothing comes of %s", file.Name, panel.Title, target.Query)
						continue
					}
					for column := range rows[0] {
						if slices.IndexFunc(rows, func(r row) bool { return r[column] != nil && r[column] != "" }) < 0 {
							w.Errorf("%s, %s: %q is empty in all of %d rows of %s", file.Name, panel.Title, column,
								len(rows), target.Query)
						}
					}
					for _, tag := range strings.Split(target.Alias, "$tag_")[1:] {
						if name, _, _ := strings.Cut(tag, " "); rows[0][name] == nil {
							w.Errorf("%s, %s: the legend wants %s: %v", file.Name, panel.Title, name, rows[0])
						}
					}
				}
				if rows := answer(w.db, filling{"run": {"another"}, "baseline": {"another/one (2)"}}.into(target.Query, w.from, w.to)); len(rows) > 0 {
					w.Errorf("%s, %s: another run shows %v", file.Name, panel.Title, rows[0])
				}
			}
		}
	}
}

// variablesChoose checks the values that the variables offer: the first column after the time.
func (w watched) variablesChoose() {
	want := map[string][]string{"run": {w.result.Run.ID}, "target": {"server a"}, "stage": {"0", "1"},
		"region": {"eu", "us"}}
	for _, v := range variables(true).List[1:] {
		var got []string
		for _, s := range w.db.Query(w.chosen.into(v.Query, w.from, w.to)) {
			for _, values := range s.Values {
				got = append(got, fmt.Sprint(values[1]))
			}
		}
		if !slices.Equal(got, want[v.Name]) {
			w.Errorf("variable %s offers %q, want %q", v.Name, got, want[v.Name])
		}
	}
}

// annotationsMark checks that each kind of mark exists.
func (w watched) annotationsMark() {
	for _, a := range annotations().List {
		rows := answer(w.db, w.chosen.into(a.Target.Query, w.from, w.to))
		if a.Name == "Warnings" {
			continue // a run need not have any
		}
		if len(rows) == 0 {
			w.Errorf("%s: no marks of %s", a.Name, a.Target.Query)
			continue
		}
		for _, column := range []string{"time", "kind", a.Target.TextColumn} {
			if rows[0][column] == nil {
				w.Errorf("%s: a mark without %s: %v", a.Name, column, rows[0])
			}
		}
	}
	if rows := w.panel("agents.json", "Lost, joined and warnings"); !slices.ContainsFunc(rows,
		func(r row) bool { return r["kind"] == "agent_lost" && r["agent"] == lost }) {
		w.Errorf("the loss of %s is not among %v", lost, rows)
	}
}

// known compares values with those of results.json, to the last digit.
func (w watched) known(what string, r row, want map[string]float64) {
	w.Helper()
	for _, column := range slices.Sorted(maps.Keys(want)) {
		if got := r.number(column); got != want[column] {
			w.Errorf("%s: %s is %v, results.json has %v", what, column, got, want[column])
		}
	}
}

// finalValues compares tables and curves of results with results.json.
func (w watched) finalValues() {
	for _, table := range [][2]string{{"sweep.json", "Results by load"}, {"compare.json", "Results"}} {
		rows := w.panel(table[0], table[1])
		if len(rows) != len(w.result.Stages) {
			w.Fatalf("%v has %d rows", table, len(rows))
		}
		for i, s := range w.result.Stages {
			w.known(fmt.Sprint(table, i), rows[i], map[string]float64{
				"requests/s": *s.RequestThroughput, "output tok/s": *s.OutputTokenThroughput,
				"E2E mean": s.E2E.Mean, "E2E p99": s.E2E.P99, "TTFT mean": s.TTFT.Mean, "TTFT p99": s.TTFT.P99,
				"TPOT mean": s.TPOT.Mean,
				"TPOT p99":  s.TPOT.P99, "ITL p99": s.ITL.P99, "send delay p99": s.SendDelay.P99,
				"verdict":   float64(s.Trust.Verdict.Number()),
				"completed": float64(s.Requests.Completed), "failed": float64(s.Requests.Failed),
				"good": float64(s.Goodput.Requests),
			})
			if rows[i]["complete"] != s.Complete || rows[i]["target"] != s.Target || rows[i]["stage"] != nil &&
				rows[i]["stage"] != fmt.Sprint(i) {
				w.Errorf("%v: row %v", table, rows[i])
			}
		}
	}
	closed, open := w.result.Stages[0], w.result.Stages[1]
	w.known("curve", w.panel("sweep.json", "Output throughput and TTFT p99")[0],
		map[string]float64{"output tok/s": *closed.OutputTokenThroughput, "TTFT p99": closed.TTFT.P99})
	w.known("concurrency", w.panel("sweep.json", "Throughput by concurrency")[0],
		map[string]float64{"concurrency": 6, "output tok/s": *closed.OutputTokenThroughput})
	w.known("rate", w.panel("sweep.json", "Rate asked and achieved")[0],
		map[string]float64{"asked": 120, "achieved": *open.RequestThroughput})
	w.known("goodput", w.panel("sweep.json", "Goodput")[1],
		map[string]float64{"good requests/s · open loop": float64(open.Goodput.Requests) / *open.DurationS})
}

// stagesSoFar compares what is known to date, which is final at the end.
func (w watched) stagesSoFar() {
	rows := w.panel("live.json", "Stages so far")
	for i, s := range w.result.Stages {
		want := map[string]float64{
			"started": float64(s.Requests.Started), "completed": float64(s.Requests.Completed),
			"failed": float64(s.Requests.Failed),
			"good":   float64(s.Goodput.Requests),
		}
		for name, d := range map[string]*histogram.Summary{"TTFT": s.TTFT, "TPOT": s.TPOT, "ITL": s.ITL,
			"E2E": s.E2E, "send delay": s.SendDelay} {
			want[name+" p50"], want[name+" p99"] = d.P50, d.P99
		}
		found := slices.IndexFunc(rows, func(r row) bool { return r["stage"] == fmt.Sprint(i) })
		if len(rows) != len(w.result.Stages) || found < 0 {
			w.Fatalf("stage %d is not among %v", i, rows)
		}
		w.known(fmt.Sprint("stage ", i, " so far"), rows[found], want)
	}
	w.worstVerdict(rows)
	last := w.panel("live.json", "Good share to date")
	open := w.result.Stages[1]
	if got, want := last[len(last)-1].number("good to date"),
		float64(open.Goodput.Requests)/float64(open.Requests.Completed+open.Requests.Failed); got != want {
		w.Errorf("good share %v, want %v", got, want)
	}
}

// worstVerdict checks that the figure above the table of stages is the worst verdict in the table: the highest of its
// rows, for the same stages.
func (w watched) worstVerdict(stages []row) {
	got := w.panel("live.json", "Worst verdict so far")
	if len(got) != len(stages) ||
		slices.ContainsFunc(got, func(r row) bool { return math.IsNaN(r.number("verdict")) }) {
		w.Errorf("verdicts %v, the table of stages has %v", got, stages)
	}
	for i, r := range got {
		if r.number("verdict") != stages[i].number("verdict") {
			w.Errorf("stage %d: verdict %v, the table of stages has %v", i, r, stages[i])
		}
	}
}

// countsAddUp compares the sums of lines with the counts in results.json, stage by stage.
func (w watched) countsAddUp() {
	for i, s := range w.result.Stages {
		one := w
		one.chosen = filling{"run": {w.result.Run.ID}, "stage": {fmt.Sprint(i)}}
		errors := map[string]float64{}
		for _, r := range one.panel("live.json", "Errors by class") {
			for column := range r {
				if class, is := strings.CutPrefix(column, "sum_errors_"); is && r[column] != nil {
					errors[class] += r.number(column)
				}
			}
		}
		for class, n := range s.Errors {
			if errors[class] != float64(n) {
				w.Errorf("stage %d: %v errors of class %s, results.json has %d", i, errors[class], class, n)
			}
		}
		for panel, column := range map[[2]string]string{
			{"live.json", "Requests per second"}:                    "completed",
			{"regions.json", "Requests per second by region"}:       "completed",
			{"agents.json", "Requests started per second by agent"}: "started",
		} {
			want := map[string]uint64{"completed": s.Requests.Completed, "started": s.Requests.Started}[column]
			if got := total(one.panel(panel[0], panel[1]), column); got != float64(want) {
				w.Errorf("stage %d: %v adds up to %v, results.json has %d", i, panel, got, want)
			}
		}
	}
}

// total adds up a column over windows of a second.
func total(rows []row, column string) (sum float64) {
	for _, r := range rows {
		if r[column] != nil {
			sum += r.number(column)
		}
	}
	return sum
}

// regions compares regions with results.json.
func (w watched) regions() {
	for i, s := range w.result.Stages {
		for _, part := range s.Regions {
			one := w
			one.chosen = filling{"run": {w.result.Run.ID}, "stage": {fmt.Sprint(i)}, "region": {part.Name}}
			rows := one.panel("regions.json", "Results by region")
			if len(rows) != 1 {
				w.Fatalf("%d rows of region %s in stage %d", len(rows), part.Name, i)
			}
			w.known("region "+part.Name, rows[0], map[string]float64{
				"requests/s": *part.RequestThroughput, "TTFT p99": part.TTFT.P99, "E2E p99": part.E2E.P99,
				"completed": float64(part.Requests.Completed),
			})
		}
		if len(s.Regions) != 2 {
			w.Errorf("stage %d has %d regions", i, len(s.Regions))
		}
	}
}

// agents compares agents with results.json.
func (w watched) agents() {
	counts, latencies := w.panel("agents.json", "Counts by agent"), w.panel("agents.json", "Latencies by agent to date")
	same := 0
	for i, s := range w.result.Stages {
		for _, a := range s.Agents {
			is := func(r row) bool {
				return r["agent"] == a.Name && r["stage"] == fmt.Sprint(i) && r["region"] == a.Region
			}
			count, latency := slices.IndexFunc(counts, is), slices.IndexFunc(latencies, is)
			if count < 0 || latency < 0 {
				w.Errorf("agent %s of stage %d is not in the tables", a.Name, i)
				continue
			}
			w.known("agent "+a.Name, counts[count], map[string]float64{
				"started": float64(a.Requests.Started), "completed": float64(a.Requests.Completed),
				"failed": float64(a.Requests.Failed),
			})
			if latencies[latency].number("completed") != float64(a.Requests.Completed) {
				continue // its last windows came after those of others
			}
			same++
			w.known("agent "+a.Name, latencies[latency],
				map[string]float64{"TTFT p50": a.TTFT.P50, "TTFT p99": a.TTFT.P99, "E2E p99": a.E2E.P99})
		}
	}
	if same == 0 {
		w.Error("no agent's latencies are final")
	}
	heard := w.panel("agents.json", "Agents heard of")
	if most := slices.MaxFunc(heard,
		func(a, b row) int { return int(a.number("agents") - b.number("agents")) }); most.number("agents") != 3 ||
		most["region"] != "eu" {
		w.Errorf("most agents heard of: %v, want the three of eu, each once", most)
	}
	none := slices.IndexFunc(heard, func(r row) bool { return r["region"] == "eu" && r.number("agents") == 0 })
	if none >= 0 || len(heard) == 0 {
		w.Errorf("no agent is listed at %v", heard)
	}
}
