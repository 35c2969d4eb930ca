package requests

import (
	"cmp"
	"math"
	"slices"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Limits on the examples of a stage: the slowest requests, and the gaps of each.
const mostSlow, mostGaps = 5, 3

// AddExamples adds to the stages of a result single requests of which the ledger keeps the rows.
func AddExamples(l *ledger.Ledger, r *results.Result) error {
	stages, err := l.Stages()
	if err != nil || r.Run.Records == nil {
		return err
	}
	for _, rec := range stages {
		s := results.StageAt(r.Stages, rec.GetStage().GetIndex())
		if s == nil || s.E2E == nil {
			continue
		}
		picks := []pick{{"p50", 1, s.E2E.P50, nil}, {"p99", 1, s.E2E.P99, nil}, {"slowest", mostSlow, s.E2E.Max, nil}}
		err := eachArrival(l, rec, func(r record) error {
			if r.GetUnmeasured() || r.GetCancelled() || r.LastTokenNs == nil || r.GetErrorClass() != 0 {
				return nil
			}
			for i := range picks {
				picks[i].add(r)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, p := range picks {
			for _, row := range p.rows {
				s.Examples = append(s.Examples, p.example(row, rec.GetStage().GetTarget()))
			}
		}
	}
	return nil
}

// e2e returns the E2E of a row in milliseconds.
func e2e(r record) float64 { return *since(r.GetStartNs(), r.LastTokenNs) }

// pick keeps the rows whose E2E is nearest to one, the nearest first.
type pick struct {
	of   string
	most int
	near float64 // in milliseconds
	rows []record
}

// add adds the row of a completed request to its place, and drops the furthest if there are too many.
func (p *pick) add(r record) {
	far := func(r record) float64 { return math.Abs(e2e(r) - p.near) }
	at, _ := slices.BinarySearchFunc(p.rows, r, func(a, b record) int {
		return cmp.Or(cmp.Compare(far(a), far(b)), inOrder(a, b))
	})
	if at < p.most {
		p.rows = slices.Insert(p.rows, at, r)
		p.rows = p.rows[:min(len(p.rows), p.most)]
	}
}

// example returns a row as an example.
func (p *pick) example(r record, target *spatev1.Target) results.Example {
	start := r.GetStartNs()
	x := results.Example{Of: p.of, Index: r.GetIndex(), Turn: r.GetTurn(), Agent: r.agent, TraceID: r.trace(),
		Endpoint:     naming.Redacted(target.GetEndpoints()[r.GetEndpoint()]),
		OutputTokens: r.OutputTokens, HeldMs: since(0, r.HeldNs), ConnectMs: since(0, r.ConnectNs),
		ServerQueueMs: since(0, r.ServerQueueNs), SendDelayMs: *since(r.GetScheduledNs()+r.GetHeldNs(), &start),
		SentMs: since(start, r.SentNs), FirstByteMs: since(start, r.FirstByteNs), TTFTMs: since(start, r.FirstTokenNs),
		E2EMs: e2e(r), Gaps: []results.Gap{}}
	at := r.GetFirstTokenNs()
	for _, gap := range r.GetItlNs() {
		x.Gaps = append(x.Gaps, results.Gap{AtMs: *since(start, &at), GapMs: *since(0, &gap)})
		at += gap
	}
	slices.SortStableFunc(x.Gaps, func(a, b results.Gap) int { return cmp.Compare(b.GapMs, a.GapMs) })
	x.Gaps = x.Gaps[:min(len(x.Gaps), mostGaps)]
	return x
}

// since returns a time from a start in milliseconds, nil if it is not known.
func since(start int64, ns *int64) *float64 {
	if ns == nil {
		return nil
	}
	return new(float64(*ns-start) / 1e6)
}
