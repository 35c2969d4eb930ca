package report

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/spate-load/spate/aggregate/results"
)

//go:embed published.yaml
var publishedYAML []byte

// publication has the numbers that were published of a deployment that a target of a shipped plan stands for.
type publication struct {
	Plan, Target string
	Columns      []string
	Tables       []struct {
		Workload string
		Rows     [][]float64 // a load, then the columns
	}
}

// publications returns all publications.
var publications = sync.OnceValue(func() (all []publication) {
	if err := yaml.Unmarshal(publishedYAML, &all); err != nil {
		panic("report: the embedded published numbers cannot be read: " + err.Error())
	}
	return all
})

// published returns what was published for a stage in the columns of the grid, or nil if nothing was.
func (g *grid) published(s results.StageResult) (values []marked) {
	for _, p := range publications() {
		if p.Plan != g.plan || p.Target != g.target {
			continue
		}
		for _, table := range p.Tables {
			at := slices.IndexFunc(table.Rows, func(row []float64) bool { return row[0] == s.Load.Value() })
			if table.Workload != g.workload || at < 0 {
				continue
			}
			for _, c := range g.columns() {
				v := marked{}
				if k := slices.Index(p.Columns, c.published); k >= 0 {
					v.value = new(table.Rows[at][k+1])
				}
				values = append(values, v)
			}
			return values
		}
	}
	return nil
}

// ratios returns numbers divided by the published ones, where both are known.
func ratios(ours, published []marked) (all []marked) {
	for i, p := range published {
		v := marked{}
		if p.value != nil && ours[i].value != nil {
			v.value = new(*ours[i].value / *p.value)
		}
		all = append(all, v)
	}
	return all
}

// nearness says how many published numbers the grid's stages are near to, or returns "" if none were published.
func (g *grid) nearness() string {
	near, nearer, all := 0, 0, 0
	for _, s := range g.stages {
		for _, v := range ratios(g.valuesOf(s), g.published(s)) {
			if v.value == nil {
				continue
			}
			all++
			if off := math.Abs(*v.value - 1); off <= 0.3 {
				near++
				if off <= 0.1 {
					nearer++
				}
			}
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("comparison with published numbers: this run is within 30 %% of %d of %d, and within 10 %% of %d", near, all,
		nearer)
}
