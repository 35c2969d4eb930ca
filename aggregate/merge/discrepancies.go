package merge

import (
	"fmt"

	"github.com/spate-load/spate/measure"
)

// Discrepancies returns how an agent's snapshots differ from its totals, in words.
func (a *Agent) Discrepancies() []string {
	if gap := a.snapshotsMissing(); gap != "" {
		return []string{gap} // with snapshots missing, the sums differ anyway
	}
	return a.differences()
}

// snapshotsMissing returns how the number of snapshots differs from the one in the totals, or "".
func (a *Agent) snapshotsMissing() string {
	want := a.Totals.GetSnapshots()
	switch {
	case a.snapshots < want:
		return fmt.Sprintf("lacks %d of its %d snapshots", want-a.snapshots, want)
	case a.snapshots > want:
		return fmt.Sprintf("has %d snapshots, but its totals say %d", a.snapshots, want)
	case a.last-a.first+1 != want || a.last != a.closing:
		return fmt.Sprintf("has %d snapshots numbered %d to %d, closed by %d: there is a gap", want, a.first,
			a.last, a.closing)
	}
	return ""
}

// differences returns how the sums of the snapshots differ from the totals, in words.
func (a *Agent) differences() (reasons []string) {
	merged, totals := measure.CountsOf(a.Counters), measure.CountsOf(a.Totals.GetCounters())
	for _, c := range measure.Counters() {
		if merged[c] != totals[c] {
			reasons = append(reasons, fmt.Sprintf("has %s %d in its snapshots, but %d in its totals", c,
				merged[c], totals[c]))
		}
	}
	counted := WindowShare{
		Tokens: merged[measure.OutputTokens], Chunks: merged[measure.Chunks],
		MicroRequests: million * merged[measure.Completed],
	}
	reasons = append(reasons, sharesDiffer(a.shared, counted)...)
	var values [measure.Count]uint64
	for _, v := range a.Totals.GetValues() {
		if measure.Known(v.GetMetric()) {
			values[v.GetMetric()] += v.GetCount()
		}
	}
	for _, m := range measure.Metrics() {
		if a.recorded[m.ID] != values[m.ID] {
			reasons = append(reasons, fmt.Sprintf("has %d values of %s in its snapshots, but %d in its totals",
				a.recorded[m.ID], m.Name, values[m.ID]))
		}
	}
	return reasons
}

// million is the number of parts into which agents divide a request among windows.
const million = 1_000_000

// sharesDiffer returns where the tokens, chunks and requests assigned to windows differ from the counted ones, in
// words.
func sharesDiffer(shared, counted WindowShare) (reasons []string) {
	for _, c := range []struct {
		of           string
		shared, want uint64
	}{
		{"output tokens", shared.Tokens, counted.Tokens},
		{"chunks", shared.Chunks, counted.Chunks},
		{"millionths of requests", shared.MicroRequests, counted.MicroRequests},
	} {
		if c.shared != c.want {
			reasons = append(reasons, fmt.Sprintf("has %d %s by window, but counted %d", c.shared, c.of, c.want))
		}
	}
	return reasons
}
