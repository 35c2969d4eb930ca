package databases

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/servertest"
)

// documentedPlan has everything that the queries of docs/influxdb.md need: regions, an SLO and errors.
const documentedPlan = `
name: documented
seed: 8
slo: {e2e: 30ms}
targets:
  - name: server
    simulator: {endpoints: 2, decode_step: 2ms, decode_step_per_request: 1ms, error_share: 0.2}
    server_metrics: {}
workloads:
  - random: {isl: 60, osl: 8}
loads:
  - concurrency: [4, 8]
    duration: 2500ms
`

// query is a query of the document, with its heading.
type query struct{ heading, language, text string }

var block = regexp.MustCompile("(?ms)^(?:```(\\w+)\n(.*?)\n```$|### (.*?)$)")

// documentedQueries returns the queries of docs/influxdb.md, for a run.
func documentedQueries(t *testing.T, document, run string) (all []query) {
	t.Helper()
	heading := ""
	for _, m := range block.FindAllStringSubmatch(document, -1) {
		heading = cmp.Or(m[3], heading)
		if m[1] != "" {
			all = append(all, query{heading, m[1], strings.ReplaceAll(m[2], "RUN", run)})
		}
	}
	return all
}

// Each query of docs/influxdb.md returns rows after a real run, and final values equal results.json.
func TestDocumentedQueries(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/influxdb.md")
	if err != nil {
		t.Fatal(err)
	}
	db := servertest.StartInflux(t, servertest.InfluxOptions{Flux: true})
	r := programs.RunPlan(t, documentedPlan, append(db.Flags(), "--agents", "eu=3,us=1")...)
	r.Exit() // requests failed, which does not make the run fail
	export(t, r.Dir, db, 0)
	results := r.Results()
	queries := documentedQueries(t, string(document), results.Run.ID)
	seen := map[string]bool{}
	for _, q := range queries {
		t.Run(q.heading+" "+q.language, func(t *testing.T) {
			var rows []stored
			switch q.language {
			case "influxql":
				rows = asked(db, q.text)
			case "flux":
				rows = fluxed(t, db, q.text)
			default:
				t.Fatalf("no query is in %q", q.language)
			}
			if len(rows) == 0 {
				t.Fatal("it finds nothing")
			}
			if check := finalChecks[q.heading]; check != nil {
				seen[q.heading] = true
				check(t, results, rows)
			}
		})
	}
	if len(queries) < 12 || len(seen) != len(finalChecks) {
		t.Errorf("%d queries, of which %v were compared with results.json, want all of %d", len(queries), seen,
			len(finalChecks))
	}
	mustBeDocumented(t, db, string(document))
}

// asked returns the rows of an InfluxQL query, with the tags of its groups.
func asked(db *servertest.Influx, text string) (rows []stored) {
	for _, series := range db.Query(text) {
		for _, values := range series.Values {
			row := stored{}
			for key, value := range series.Tags {
				row[key] = value
			}
			for i, column := range series.Columns {
				if values[i] != nil {
					row[column] = values[i]
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// fluxed returns the rows of a Flux query.
func fluxed(t *testing.T, db *servertest.Influx, text string) (rows []stored) {
	t.Helper()
	client := influxdb2.NewClient(db.URL, db.Token)
	defer client.Close()
	if !servertest.InfluxTwo() {
		text = strings.ReplaceAll(text, `bucket: "spate"`, `bucket: "spate/autogen"`)
	}
	answer, err := client.QueryAPI(db.Org).Query(context.Background(), text)
	if err != nil {
		t.Fatal(err)
	}
	for answer.Next() {
		row := stored{}
		for key, value := range answer.Record().Values() {
			row[key] = value
			if field, _ := answer.Record().Values()["_field"].(string); key == "_value" && field != "" {
				row[field] = value
			}
		}
		rows = append(rows, row)
	}
	if err := answer.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// finalChecks compare the rows of a query with results.json.
var finalChecks = map[string]func(*testing.T, results.Result, []stored){
	"Results of all stages": eachStage(func(s results.StageResult, row stored) map[string]any {
		return present(row, map[string]any{
			"request_throughput": *s.RequestThroughput, "output_token_throughput": *s.OutputTokenThroughput,
			"ttft_ms_p50": s.TTFT.P50, "ttft_ms_p99": s.TTFT.P99, "tpot_ms_p50": s.TPOT.P50, "tpot_ms_p99": s.TPOT.P99,
			"e2e_ms_p50": s.E2E.P50, "e2e_ms_p99": s.E2E.P99,
		})
	}),
	"Results by region": eachStage(func(s results.StageResult, row stored) map[string]any {
		for _, region := range s.Regions {
			if region.Name == row["region"] {
				return map[string]any{
					"completed": region.Requests.Completed, "output_token_throughput": *region.OutputTokenThroughput,
					"ttft_ms_p99": region.TTFT.P99,
				}
			}
		}
		return map[string]any{"region": "one that results.json has"}
	}),
	"Latest percentiles to date": eachStage(func(s results.StageResult, row stored) map[string]any {
		return present(row, map[string]any{"ttft_ms_p99": s.TTFT.P99, "tpot_ms_p99": s.TPOT.P99})
	}),
	"Requests and errors": func(t *testing.T, r results.Result, rows []stored) {
		sums := map[string]int64{}
		for _, row := range rows { // one for each measurement
			if _, ok := row["completed"]; ok {
				sums[fmt.Sprint(row["stage"])] += number(t, row["completed"])
			}
		}
		for _, s := range r.Stages {
			if got := sums[fmt.Sprint(s.Index)]; got != int64(s.Requests.Completed) {
				t.Errorf("stage %d: %d completed, results.json has %d", s.Index, got, s.Requests.Completed)
			}
		}
	},
	"Errors by class": eachStage(func(s results.StageResult, row stored) map[string]any {
		want := map[string]any{}
		for class, n := range s.Errors {
			want["sum_errors_"+class] = n
		}
		if len(want) == 0 {
			want["errors"] = "some: the simulator was told to fail"
		}
		return want
	}),
	"Goodput": eachStage(func(s results.StageResult, _ stored) map[string]any {
		return map[string]any{"goodput": *s.Goodput.Share}
	}),
}

// present drops values that a query does not select. At least one value must stay.
func present(row stored, want map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range want {
		if row[key] != nil {
			out[key] = value
		}
	}
	if len(out) == 0 {
		return want
	}
	return out
}

// eachStage compares rows with their stages. All stages must be there.
func eachStage(want func(results.StageResult, stored) map[string]any) func(*testing.T, results.Result, []stored) {
	return func(t *testing.T, r results.Result, rows []stored) {
		seen := map[string]bool{}
		for _, row := range rows {
			for _, s := range r.Stages {
				if fmt.Sprint(s.Index) != row["stage"] {
					continue
				}
				seen[fmt.Sprint(s.Index)] = true
				for field, value := range want(s, row) {
					if got := row[field]; !same(got, value) && got != value {
						t.Errorf("stage %d: %s is %v, results.json has %v", s.Index, field, got, value)
					}
				}
			}
		}
		if len(seen) != len(r.Stages) {
			t.Errorf("stages %v are there, want %d", seen, len(r.Stages))
		}
	}
}

// number returns a whole number from either query language.
func number(t *testing.T, value any) int64 {
	t.Helper()
	if n, ok := value.(int64); ok {
		return n
	}
	if n, ok := value.(json.Number); ok {
		return integer(t, n)
	}
	t.Fatalf("%v is not a number", value)
	return 0
}

var ofMetric = regexp.MustCompile(`^(.*)_(count|mean|std|min|max|p50|p90|p95|p99|p99_9)$`)

// mustBeDocumented reports each measurement, tag and field in the database that the document lacks.
func mustBeDocumented(t *testing.T, db *servertest.Influx, document string) {
	t.Helper()
	known := func(name string) bool { return strings.Contains(document, "`"+name+"`") }
	for _, series := range db.Query("SHOW FIELD KEYS") {
		if !known(series.Name) {
			t.Errorf("measurement %s is not documented", series.Name)
		}
		for _, values := range series.Values {
			field, _ := values[0].(string)
			metric := ofMetric.ReplaceAllString(field, "$1")
			if !known(field) && !strings.HasPrefix(field, "errors_") && !known(metric) {
				t.Errorf("field %s of %s is not documented", field, series.Name)
			}
		}
	}
	for _, series := range db.Query("SHOW TAG KEYS") {
		for _, values := range series.Values {
			if key, _ := values[0].(string); !known(key) {
				t.Errorf("tag %s of %s is not documented", key, series.Name)
			}
		}
	}
}
