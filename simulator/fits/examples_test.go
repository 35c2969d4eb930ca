package fits

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spate-load/spate/simulator/config"
)

// exampleRow matches a row of a page of docs/examples: the load, and the values of the columns, without their deviation
// from the measured values.
var exampleRow = regexp.MustCompile(`^\| ([\d.]+) \| [A-Z]+ \| \d+ \|(.*)\|$`)

// examplePage returns the values on a plan's page by "TARGET/WORKLOAD/LOAD".
func examplePage(t *testing.T, plan string) map[string][]float64 {
	t.Helper()
	data, err := os.ReadFile("../../docs/examples/" + plan + ".md")
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("docs/examples has no page for %s: make examples", plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	rows, target, load := map[string][]float64{}, "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "### "); ok {
			target, load, _ = strings.Cut(head, ", ")
		}
		row := exampleRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		var values []float64
		for cell := range strings.SplitSeq(row[2], "|") {
			v, err := strconv.ParseFloat(strings.Fields(cell)[0], 64)
			if err != nil {
				t.Fatalf("%s: %s: %v", plan, line, err)
			}
			values = append(values, v)
		}
		rows[target+"/"+load+"/"+row[1]] = values
	}
	return rows
}

// The pages of docs/examples belong to today's plans and engines: nearly all means on them are those of the plans in
// virtual time, up to the overhead of a real run. Pages from other plans or other engines would differ.
func TestExamplesAreCurrent(t *testing.T) {
	const near, share = 0.15, 0.95
	for _, plan := range []string{"dynamo-vllm-h20", "deepseek-r1-h20", "mooncake-a10", "gpustack-h100"} {
		page, s := examplePage(t, plan), simulate(t, plan)
		all, off := 0, 0
		for _, f := range readFits(t) {
			if f.Plan != plan {
				continue
			}
			c := config.FromPlan(s.targets[f.Target])
			f.each(t, &c, s, func(table *fitTable, row, got []float64) {
				values := page[stageKey(f.Target, table.Workload, row[0])]
				if len(values) != len(got) {
					t.Fatalf("the page of %s has no row %s: make examples", plan,
						stageKey(f.Target, table.Workload, row[0]))
				}
				for k, column := range f.Columns {
					if strings.HasSuffix(column, "_p99") {
						continue
					}
					all++
					if math.Abs(values[k]/got[k]-1) > near {
						off++
						t.Logf("%s %s: %g on the page, %.4g in virtual time",
							stageKey(f.Target, table.Workload, row[0]), column, values[k], got[k])
					}
				}
			})
		}
		if float64(all-off) < share*float64(all) {
			t.Errorf("%d of %d means on the page of %s are more than 15 %% off: make examples PLANS=%s", off,
				all, plan, plan)
		}
	}
}
