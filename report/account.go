package report

import (
	"fmt"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/report/section"
)

// accountsSection compares the servers' own account of each stage, if there is one, with what clients measured.
func accountsSection(stages []results.StageResult) section.Section {
	var rows, parts [][]string
	var words []string
	for _, s := range stages {
		a := s.ServerAccount
		if a == nil {
			continue
		}
		rows = append(rows, accountRows(s, a)...)
		parts = append(parts, partsRow(s, a))
		for _, text := range []string{a.Summary, a.Note} {
			if text != "" {
				words = append(words, stageName(s)+": "+text)
			}
		}
	}
	if len(parts) == 0 {
		return section.Section{}
	}
	compared := section.Block{}
	if len(rows) > 0 {
		compared = section.Table([]string{"Stage", "Latency", "Client mean", "Server mean", "Difference", "Client P50",
			"Server P50", "Client P99", "Server P99", "Values (client, server)"}, rows)
	}
	return section.New("Client minus server",
		section.Text("What clients measured beside the servers' own histograms of the same requests, in ms. Of a "+
			"percentile, the servers' histograms show only the bucket that contains it."),
		compared, section.List(words), section.Block{Heading: "Where the time goes"},
		section.Text("Means in ms. Connect to prefill add up to the TTFT."),
		section.Table([]string{"Stage", "Requests (measured, counted)", "Send delay", "Connect", "Network", "Frontend",
			"Router", "Engine", "Queue", "Prefill", "TTFT", "Decode", "Receive lag", "Cached (%)"}, parts))
}

// accountRows returns rows for the latencies that both sides have.
func accountRows(s results.StageResult, a *servermetrics.ServerAccount) (rows [][]string) {
	for _, l := range []struct {
		name string
		c    *servermetrics.Comparison
	}{{"TTFT", a.TTFT}, {"ITL", a.ITL}, {"TPOT", a.TPOT}, {"E2E", a.E2E}} {
		if l.c == nil {
			continue
		}
		difference := unknown
		if d := l.c.Difference; d != nil {
			difference = fmt.Sprintf("%+.2f", d.Mean)
		}
		rows = append(rows, []string{
			stageName(s), l.name, fixed(&l.c.Client.Mean), fixed(&l.c.Server.Mean), difference,
			fixed(&l.c.Client.P50), quantileCell(l.c.Server.P50, fixed), fixed(&l.c.Client.P99),
			quantileCell(l.c.Server.P99, fixed),
			fmt.Sprintf("%d, %d", l.c.Client.Count, l.c.Server.Count),
		})
	}
	return rows
}

// partsRow returns a row of where the time of a stage's requests went.
func partsRow(s results.StageResult, a *servermetrics.ServerAccount) []string {
	row := []string{stageName(s), fmt.Sprintf("%d, %d", a.Requests.Measured, a.Requests.Counted)}
	p := a.Parts
	for _, v := range []*float64{p.SendDelay, p.Connect, p.Network, p.Frontend, p.Router, p.Engine, p.Queue, p.Prefill,
		mean(s.TTFT), p.Decode, p.ReceiveLag} {
		row = append(row, fixed(v))
	}
	return append(row, fixedPercent(a.CachedShare))
}
