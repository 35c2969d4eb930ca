package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// seed holds what was measured on a deployment.
type seed struct {
	Source, Plan, Target string
	Columns              []string
	Tables               []struct {
		Workload string
		Rows     [][]float64
	}
}

func readSeeds(path string) ([]seed, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var seeds []seed
	return seeds, yaml.Unmarshal(data, &seeds)
}

// stage holds what a page needs of a stage's results.
type stage struct {
	Target, Workload string
	Load             struct {
		Concurrency, Rate float64
	}
	Trust struct {
		Verdict string
		Checks  []struct{ Name, Verdict, Words string }
	}
	Throughput float64    `json:"output_token_throughput"`
	TTFT       *latencies `json:"ttft_ms"`
	TPOT       *latencies `json:"tpot_ms"`
	E2E        *latencies `json:"e2e_ms"`
	OSL        struct {
		Seen struct{ Mean float64 }
	} `json:"osl_tokens"`
}

type latencies struct{ Mean, P99 float64 }

func readStages(path string) ([]stage, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var results struct{ Stages []stage }
	return results.Stages, json.Unmarshal(data, &results)
}

// value returns a column of a stage in the plan's own time, in the column's unit: tokens per second or milliseconds.
func (s *stage) value(column string, speed float64) (float64, error) {
	of := map[string]*latencies{"ttft": s.TTFT, "tpot": s.TPOT, "e2e": s.E2E}
	name, tail := strings.CutSuffix(column, "_p99")
	switch l := of[name]; {
	case column == "tokens_per_second":
		return s.Throughput / speed, nil
	case l == nil:
		return 0, fmt.Errorf("stage %s, %s has no %s", s.Target, s.Workload, column)
	case tail:
		return l.P99 * speed, nil
	default:
		return l.Mean * speed, nil
	}
}

// heads are the headings of the columns on a page.
var heads = map[string]string{
	"tokens_per_second": "Output (tok/s)", "ttft": "Mean TTFT (ms)", "ttft_p99": "P99 TTFT (ms)",
	"tpot":     "Mean TPOT (ms)",
	"tpot_p99": "P99 TPOT (ms)", "e2e": "Mean E2E (ms)", "e2e_p99": "P99 E2E (ms)",
}

// writeBeside appends a table for each workload of each target, with the difference between each cell and the published
// measurement. speedOf returns how many times faster than planned a target was run.
func writeBeside(w io.Writer, stages []stage, seeds []seed, speedOf func(target string) float64) error {
	fmt.Fprintln(w, "\nAll values are the plan's: what ran faster is converted back. In brackets: how far from the published number.")
	var reasons []string
	for _, d := range seeds {
		speed := speedOf(d.Target)
		for _, table := range d.Tables {
			fmt.Fprintf(w, "\n### %s, %s\n\n| Load | Verdict | OSL |", d.Target, table.Workload)
			for _, c := range d.Columns {
				fmt.Fprintf(w, " %s |", heads[c])
			}
			fmt.Fprintf(w, "\n|%s\n", strings.Repeat(":-:|", 3+len(d.Columns)))
			for _, row := range table.Rows {
				s := find(stages, d.Target, table.Workload, row[0], speed)
				if s == nil {
					return fmt.Errorf("the run has no stage of %s, %s at %g", d.Target, table.Workload, row[0])
				}
				if err := s.writeRow(w, row, d.Columns, speed); err != nil {
					return err
				}
				reasons = append(reasons, s.reasons(row[0])...)
			}
		}
	}
	writeReasons(w, reasons)
	return nil
}

// find returns the stage of a load. Rates in the run are higher by the factor speed.
func find(stages []stage, target, workload string, load, speed float64) *stage {
	for i := range stages {
		s := &stages[i]
		if s.Target == target && s.Workload == workload && (s.Load.Concurrency == load || s.Load.Rate == load*speed) {
			return s
		}
	}
	return nil
}

func (s *stage) writeRow(w io.Writer, row []float64, columns []string, speed float64) error {
	fmt.Fprintf(w, "| %g | %s | %.0f |", row[0], s.Trust.Verdict, s.OSL.Seen.Mean)
	for k, c := range columns {
		v, err := s.value(c, speed)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, " %s (%+.0f %%) |", short(v), (v/row[k+1]-1)*100)
	}
	fmt.Fprintln(w)
	return nil
}

// short formats a number with about four digits.
func short(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// reasons returns why a stage is not VALID.
func (s *stage) reasons(load float64) []string {
	var all []string
	for _, c := range s.Trust.Checks {
		if c.Verdict != "VALID" {
			all = append(all, fmt.Sprintf("%s, %s, %g: %s: %s", s.Target, s.Workload, load, c.Verdict, c.Words))
		}
	}
	return all
}

func writeReasons(w io.Writer, reasons []string) {
	fmt.Fprintf(w, "\n### Verdicts\n\n")
	if len(reasons) == 0 {
		fmt.Fprintln(w, "All stages are VALID.")
	}
	for _, r := range reasons {
		fmt.Fprintf(w, "- %s\n", r)
	}
}

var level2 = regexp.MustCompile(`(?m)^## `)

// copyTables appends the report's tables of results and its verdicts, without the head and without the details of
// single stages.
func copyTables(w io.Writer, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, rest, found := strings.Cut(string(data), "\n## ")
	if !found {
		return fmt.Errorf("%s has no tables", path)
	}
	tables, _, _ := strings.Cut("## "+rest, "\n## Requests")
	_, err = io.WriteString(w, "\n"+level2.ReplaceAllString(strings.TrimSpace(tables), "### ")+"\n")
	return err
}
