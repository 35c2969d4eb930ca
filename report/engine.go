package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/internal/table"
)

// enginesSection returns what engines report about speculative decoding and KV caches, if they report any of it.
func enginesSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Inside the engines",
		"From the engines' own metrics, over all servers. Tokens per step are those that a step of the model yields for a "+
			"request; tokens per frame are what reached the client.",
		[]string{"Stage", "KV cache in use (mean %, max %)", "Found in caches (% of prompt tokens)", "Drafts accepted (%)",
			"Tokens per step", "Tokens per frame", "KV transfers", "Failed", "Mean (ms)", "GiB"},
		func(s results.StageResult, add func(...any)) {
			if s.Engine != nil {
				add(enginesRow(stageName(s), s, s.Engine)...)
			}
			for i := range s.EngineRoles {
				role := &s.EngineRoles[i]
				add(enginesRow(stageName(s)+": "+role.Role, s, &role.EngineResult)...)
			}
		})
}

// enginesRow returns the row of a stage, or of one role in it.
func enginesRow(name string, s results.StageResult, e *servermetrics.EngineResult) []any {
	use := unknown
	if e.KVCacheUse != nil {
		use = fixedPercent(e.KVCacheUse) + ", " + fixedPercent(e.KVCacheUseMax)
	}
	var tiers []string
	for _, t := range e.CacheHits {
		tiers = append(tiers, t.Tier+" "+fixedPercent(&t.Share))
	}
	found := cmp.Or(strings.Join(tiers, ", "), unknown)
	row := []any{name, use, found, unknown, unknown, mean(s.TokensPerFrame), unknown, unknown, unknown, unknown}
	if p := e.Speculation; p != nil {
		row[3], row[4] = fixedPercent(p.AcceptedShare), p.TokensPerStep
	}
	if t := e.Transfers; t != nil {
		row[6], row[7], row[8] = t.Count, significant(t.Failed), t.MeanMs
		if t.Bytes != nil {
			row[9] = fmt.Sprintf("%.3f", *t.Bytes/(1<<30))
		}
	}
	return row
}
