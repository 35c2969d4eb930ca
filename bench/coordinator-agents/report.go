package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/histogram"
)

// report holds the cost of a run.
type report struct {
	settings
	ending
	first sample // before the first agent
	acks  *histogram.Histogram
	beats *histogram.Histogram
	acked uint64
	timed uint64
}

// report sums up a run. It returns an error for a run that did not go as it should: its cost means nothing.
func (m *meter) report(first sample, e ending, a *answers) (report, error) {
	if refused := a.refused.Load(); refused > 0 {
		return report{}, fmt.Errorf("%d snapshots refused, the last because: %v", refused, a.last.Load())
	}
	if e.stage == nil || !e.stage.GetComplete() || e.end == nil || !e.end.GetComplete() {
		return report{}, fmt.Errorf("the result is not complete: stage: %s; run: %s", e.stage.GetFailure(),
			e.end.GetReason())
	}
	if len(e.measured) < 2 {
		return report{}, errors.New("the coordinator's process could not be read during the run")
	}
	if want := float64(m.agents * m.windows); e.written != want {
		return report{}, fmt.Errorf("the coordinator wrote %v snapshots, not %v", e.written, want)
	}
	r := report{settings: m.settings, ending: e, first: first, acks: a.acks, beats: a.beats, acked: a.acked.Load(),
		timed: a.timed.Load()}
	slices.Sort(r.delays)
	return r, nil
}

// String returns the table.
func (r report) String() string {
	from, to := r.measured[0], r.measured[len(r.measured)-1]
	seconds := to.at.Sub(from.at).Seconds() / float64(r.slow)
	cpu := (to.user + to.sys - from.user - from.sys).Seconds()
	snapshots := float64(r.agents) * seconds
	var anon uint64
	for _, s := range r.measured {
		anon = max(anon, s.anon)
	}
	var b strings.Builder
	row := func(name, form string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, fmt.Sprintf(form, args...))
	}
	row("what", "value")
	row("---", "---:")
	row("agents, regions, windows, values of a distribution, rows; a second took", "%d, %d, %d, %d, %s; %d s",
		r.agents, r.regions, r.windows, r.values, rows(r.records), r.slow)
	row("snapshots, of which refused or duplicate; complete", "%d, 0, %v", r.acked, r.stage.GetComplete())
	row("coordinator's CPU", "%.1f %% of a core (user %.1f, system %.1f)", 100*cpu/seconds,
		100*(to.user-from.user).Seconds()/seconds, 100*(to.sys-from.sys).Seconds()/seconds)
	row("CPU for an agent and second, all included", "%.0f us", 1e6*cpu/snapshots)
	row("most memory: without mapped files, with them (VmHWM)", "%d MiB, %d MiB", anon>>20, r.after.peak>>20)
	row("received", "%.2f MB/s, %.0f bytes for an agent and second", float64(to.received-from.received)/1e6/seconds,
		float64(to.received-from.received)/snapshots)
	row("end of a window to its merged result at a client, p50, p99, most", "%s", quantiles(r.delays))
	row("snapshot to ack, p50, p99, most", "%s", r.times(r.acks))
	row("heartbeat to its answer, p50, p99, most; with the clock", "%s; %.1f %%", r.times(r.beats),
		100*float64(r.timed)/float64(max(1, r.beats.Count())))
	row("ledger", "%.1f MB/s, %.0f bytes a snapshot", float64(to.ledger-from.ledger)/1e6/seconds,
		float64(r.after.ledger)/float64(r.acked))
	row("CPU until the end of settling, and from the last window to the run's end", "%.2f s, %.2f s",
		(from.user + from.sys - r.first.user - r.first.sys).Seconds(),
		(r.after.user + r.after.sys - to.user - to.sys).Seconds())
	return b.String()
}

func rows(form string) string {
	if form == "" {
		return "none"
	}
	return form
}

// quantiles formats p50, p99 and the maximum of sorted times.
func quantiles(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "n/a"
	}
	at := func(p float64) time.Duration { return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)] }
	return fmt.Sprintf("%.0f ms, %.0f ms, %.0f ms", at(0.5).Seconds()*1e3, at(0.99).Seconds()*1e3,
		sorted[len(sorted)-1].Seconds()*1e3)
}

// times formats the same for a histogram.
func (r report) times(h *histogram.Histogram) string {
	if h.Count() == 0 {
		return "n/a"
	}
	ms := func(v int64) float64 { return float64(v) / 1e6 / float64(r.slow) }
	return fmt.Sprintf("%.1f ms, %.1f ms, %.1f ms", ms(h.Percentile(50)), ms(h.Percentile(99)), ms(h.Max()))
}
