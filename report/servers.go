package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/internal/table"
)

// serversSection returns the servers' own metrics, if gauges were read or there is no account.
func serversSection(stages []results.StageResult) table.Section {
	var rows [][]string
	var trouble []string
	for _, s := range stages {
		for _, server := range s.Servers {
			for _, m := range server.Metrics {
				if s.ServerAccount == nil || hasGauges(s.Servers) {
					rows = append(rows, append([]string{stageName(s), server.URL, m.Name, m.Labels}, serverCells(m)...))
				}
			}
			if words := serverTrouble(server); words != "" {
				trouble = append(trouble, stageName(s)+": "+words)
			}
		}
	}
	if len(rows)+len(trouble) == 0 {
		return table.Section{}
	}
	blocks := []table.Block{table.Text("Gauges each second from the first measured start to the last measured end; " +
		"counters and histograms over the stage.")}
	if len(rows) > 0 {
		blocks = append(blocks, table.Texts([]string{"Stage", "Asked at", "Metric", "Labels", "Mean", "Min", "Max",
			"Increase", "Per second", "Count", "P50", "P99"}, rows))
	}
	return table.NewSection("Servers: their metrics", append(blocks, table.Notes(trouble)...)...)
}

// hasGauges reports whether gauges were read.
func hasGauges(servers []servermetrics.ServerResult) bool {
	return slices.ContainsFunc(servers, func(s servermetrics.ServerResult) bool {
		return slices.ContainsFunc(s.Metrics, func(m servermetrics.ServerMetric) bool { return m.Kind == "gauge" })
	})
}

// serverCells returns a metric's numbers. Their units are the servers', so it is not known how many of the digits
// matter.
func serverCells(m servermetrics.ServerMetric) (cells []string) {
	for _, v := range []*float64{m.Mean, m.Min, m.Max, m.Increase, m.PerSecond} {
		cells = append(cells, significant(v))
	}
	return append(cells, whole(m.Count), quantileCell(m.P50, significant), quantileCell(m.P99, significant))
}

// significant formats a number with six significant digits.
func significant(v *float64) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v, 'g', 6, 64)
}

// quantileCell formats a quantile of a histogram with the bounds of its bucket.
func quantileCell(q *servermetrics.ServerQuantile, format func(*float64) string) string {
	switch {
	case q == nil:
		return unknown
	case q.High == nil:
		return "above " + format(q.Low)
	case q.Low == nil:
		return "up to " + format(q.High)
	}
	return fmt.Sprintf("%s (%s to %s)", format(q.Value), format(q.Low), format(q.High))
}

// serverTrouble returns what is missing of a server's metrics, or "" if nothing is.
func serverTrouble(s servermetrics.ServerResult) string {
	switch {
	case s.Asked == 0:
		return s.URL + " was not read: no agent could reach it, or its agent was lost; the run's notes say more"
	case s.Restarted:
		return s.URL + " was started again during the stage: what it had counted before is lost"
	case s.Failed > 0:
		return fmt.Sprintf("%s did not answer %d of %d times", s.URL, s.Failed, s.Asked)
	case s.ValuesLeftOut > 0:
		return fmt.Sprintf("%s has too many series: %d values were dropped; name fewer in server_metrics.names", s.URL, s.ValuesLeftOut)
	case len(s.Metrics) == 0:
		return s.URL + " has none of the requested metrics: name others in server_metrics.names"
	}
	return ""
}

// accountsSection compares the servers' own account of each stage, if there is one, with what clients measured.
func accountsSection(stages []results.StageResult) table.Section {
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
		return table.Section{}
	}
	compared := table.Block{}
	if len(rows) > 0 {
		compared = table.Texts([]string{"Stage", "Latency", "Client mean", "Server mean", "Difference", "Client P50",
			"Server P50", "Client P99", "Server P99", "Values (client, server)"}, rows)
	}
	return table.NewSection("Client minus server",
		table.Text("What clients measured beside the servers' own histograms of the same requests, in ms. Of a "+
			"percentile, the servers' histograms show only the bucket that contains it."),
		compared, table.List(words), table.Block{Heading: "Where the time goes"},
		table.Text("Means in ms. Connect to prefill add up to the TTFT."),
		table.Texts([]string{"Stage", "Requests (measured, counted)", "Send delay", "Connect", "Network", "Frontend",
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
		client, server := &l.c.Client, &l.c.Server
		rows = append(rows, texts(stageName(s), l.name, &client.Mean, &server.Mean, difference, &client.P50,
			quantileCell(server.P50, fixed), &client.P99, quantileCell(server.P99, fixed),
			fmt.Sprintf("%d, %d", client.Count, server.Count)))
	}
	return rows
}

// partsRow returns a row of where the time of a stage's requests went.
func partsRow(s results.StageResult, a *servermetrics.ServerAccount) []string {
	p := a.Parts
	return texts(stageName(s), fmt.Sprintf("%d, %d", a.Requests.Measured, a.Requests.Counted), p.SendDelay, p.Connect,
		p.Network, p.Frontend, p.Router, p.Engine, p.Queue, p.Prefill, mean(s.TTFT), p.Decode, p.ReceiveLag,
		fixedPercent(a.CachedShare))
}

// gpuCells returns what is known of a stage's GPUs. A mean is there only if it is known of all GPUs.
func gpuCells(g *servermetrics.GPUResult) []any {
	perJoule := unknown
	if j := g.JoulesPerOutputToken; j != nil && *j > 0 {
		perJoule = strconv.FormatFloat(1 / *j, 'g', 4, 64)
	}
	memory := unknown
	if _, most, known := rangeOf(g.Devices, func(d *servermetrics.GPU) *float64 { return d.MemoryMiB }); known {
		memory = fmt.Sprintf("%.1f", most/1024)
	}
	throttled := unknown
	if _, most, known := rangeOf(g.Devices, func(d *servermetrics.GPU) *float64 { return d.Throttled }); known {
		throttled = fixedPercent(&most)
	}
	busy := func(d *servermetrics.GPU) *float64 { return d.Busy }
	smActive := func(d *servermetrics.GPU) *float64 { return d.SMActive }
	tensorActive := func(d *servermetrics.GPU) *float64 { return d.TensorActive }
	return []any{len(g.Devices), g.PowerW, g.EnergyJ, significant(g.JoulesPerOutputToken), perJoule,
		sharesOf(g.Devices, busy), sharesOf(g.Devices, smActive), sharesOf(g.Devices, tensorActive), memory, throttled}
}

// sharesOf formats the lowest and the highest of a share over all GPUs, in percent.
func sharesOf(devices []servermetrics.GPU, of func(*servermetrics.GPU) *float64) string {
	least, most, known := rangeOf(devices, of)
	switch {
	case !known:
		return unknown
	case fixedPercent(&least) == fixedPercent(&most):
		return fixedPercent(&least)
	}
	return fixedPercent(&least) + " to " + fixedPercent(&most)
}

// rangeOf returns the lowest and the highest of a value over all GPUs. known is false if one GPU does not have it.
func rangeOf(devices []servermetrics.GPU, of func(*servermetrics.GPU) *float64) (least, most float64, known bool) {
	least, most = math.Inf(1), math.Inf(-1)
	for i := range devices {
		v := of(&devices[i])
		if v == nil {
			return 0, 0, false
		}
		least, most = min(least, *v), max(most, *v)
	}
	return least, most, len(devices) > 0
}
