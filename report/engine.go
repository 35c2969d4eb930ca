package report

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/report/section"
)

// enginesSection returns what engines report about speculative decoding and KV caches, if they report any of it.
func enginesSection(stages []results.StageResult) section.Section {
	var rows [][]string
	for _, s := range stages {
		if s.Engine != nil {
			rows = append(rows, enginesRow(stageName(s), s, s.Engine))
		}
		for i := range s.EngineRoles {
			role := &s.EngineRoles[i]
			rows = append(rows, enginesRow(stageName(s)+": "+role.Role, s, &role.EngineResult))
		}
	}
	if len(rows) == 0 {
		return section.Section{}
	}
	return section.New("Inside the engines",
		section.Text("From the engines' own metrics, over all servers. Tokens per step are those that a step of the model "+
			"yields for a request; tokens per frame are what reached the client."),
		section.Table([]string{"Stage", "KV cache in use (mean %, max %)", "Found in caches (% of prompt tokens)",
			"Drafts accepted (%)", "Tokens per step", "Tokens per frame", "KV transfers", "Failed", "Mean (ms)", "GiB"}, rows))
}

// enginesRow returns the row of a stage, or of one role in it.
func enginesRow(name string, s results.StageResult, e *servermetrics.EngineResult) []string {
	use := unknown
	if e.KVCacheUse != nil {
		use = fixedPercent(e.KVCacheUse) + ", " + fixedPercent(e.KVCacheUseMax)
	}
	var tiers []string
	for _, t := range e.CacheHits {
		tiers = append(tiers, t.Tier+" "+fixedPercent(&t.Share))
	}
	found := unknown
	if len(tiers) > 0 {
		found = strings.Join(tiers, ", ")
	}
	row := []string{name, use, found}
	if p := e.Speculation; p != nil {
		row = append(row, fixedPercent(p.AcceptedShare), fixed(p.TokensPerStep))
	} else {
		row = append(row, unknown, unknown)
	}
	return append(append(row, fixed(mean(s.TokensPerFrame))), transferCells(e.Transfers)...)
}

// transferCells returns the cells of the handovers of KV caches.
func transferCells(t *servermetrics.Transfers) []string {
	if t == nil {
		return []string{unknown, unknown, unknown, unknown}
	}
	const gib = 1 << 30
	size := unknown
	if t.Bytes != nil {
		size = fmt.Sprintf("%.3f", *t.Bytes/gib)
	}
	return []string{fmt.Sprint(t.Count), significant(t.Failed), fixed(t.MeanMs), size}
}
