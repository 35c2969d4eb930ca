package compare

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/simulator/config"
)

// pairs is the number of pairs of runs for each row of the tables in docs/compare.md.
var pairs = flag.Int("pairs", 5, "pairs of runs for each row of the tables of false alarms and of power")

// settings are the loads of the tables.
var settings = []setting{
	{name: "16 streams, 10 s", concurrency: 16, duration: 10 * time.Second, osl: 100},
	{name: "16 streams, 30 s", concurrency: 16, duration: 30 * time.Second, osl: 100},
	{name: "16 streams, 10 s, equal lengths", concurrency: 16, duration: 10 * time.Second, osl: 100, fixed: true},
	{name: "16 streams, 10 s, stalls", concurrency: 16, duration: 10 * time.Second, osl: 100,
		model: func(m *config.Model) { m.StallShare, m.Stall = 0.002, 100*time.Millisecond }},
	{name: "64 streams, 10 s, queueing", concurrency: 64, duration: 10 * time.Second, osl: 100},
	{name: "20 req/s, 10 s", rate: 20, duration: 10 * time.Second, osl: 100},
	{name: "38 req/s, 30 s, near its capacity", rate: 38, duration: 30 * time.Second, osl: 100},
}

// outcome of many pairs of runs of one setting.
type found struct {
	pairs, alarms int // pairs with any difference called
	tpot          int // pairs with a TPOT called worse
	metrics       map[string]int
}

// pairsOf compares pairs of runs of a setting, the second on an engine that is slower by a share.
func pairsOf(t *testing.T, s setting, by, tolerance float64) found {
	f := found{pairs: *pairs, metrics: map[string]int{}}
	for i := range uint64(*pairs) {
		a, b := s.run(2*i+1, 0), s.run(2*i+2, by)
		c, err := Of([]Side{{Name: "a", Runs: []*Run{a}}, {Name: "b", Runs: []*Run{b}}}, Options{Tolerance: tolerance})
		if err != nil {
			t.Fatal(err)
		}
		if c.Count(Worse)+c.Count(Better) > 0 {
			f.alarms++
		}
		tpot := false
		for _, d := range c.Sides[0].Stages[0].Metrics {
			if d.Outcome == Worse || d.Outcome == Better {
				f.metrics[d.Metric]++
				tpot = tpot || d.Outcome == Worse && strings.HasPrefix(d.Metric, "tpot_ms")
			}
		}
		if tpot {
			f.tpot++
		}
	}
	return f
}

// Runs on an unchanged engine are not called different: the table of false alarms in docs/compare.md.
func TestFalseAlarms(t *testing.T) {
	for _, s := range settings {
		strict, usual := pairsOf(t, s, 0, 0), pairsOf(t, s, 0, 0.01)
		t.Logf("| %s | %d of %d | %d of %d |", s.name, strict.alarms, strict.pairs, usual.alarms, usual.pairs)
		if most := allowed(*pairs); strict.alarms > most || usual.alarms > most {
			t.Errorf("%s: more than %d false alarms: %v, %v", s.name, most, strict.metrics, usual.metrics)
		}
	}
}

// allowed is the largest number of false alarms that a true share of 5 % gives in 99.9 % of all series of pairs.
func allowed(n int) int { return n/20 + 2 + n/20 }

// A TPOT that is 3 % slower is found: the table of power in docs/compare.md.
func TestPower(t *testing.T) {
	for _, s := range settings[:4] {
		row := "| " + s.name
		for _, by := range []float64{0.01, 0.02, 0.03, 0.05} {
			f := pairsOf(t, s, by, 0.01)
			row += fmt.Sprintf(" | %d of %d", f.tpot, f.pairs)
			if by == 0.03 && s.name == settings[0].name && f.tpot < f.pairs*95/100 {
				t.Errorf("%s: a TPOT 3 %% slower is found in %d of %d pairs", s.name, f.tpot, f.pairs)
			}
		}
		t.Log(row + " |")
	}
}
