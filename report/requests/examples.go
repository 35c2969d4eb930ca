package requests

import (
	"cmp"
	"math"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/plans/naming"
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
		err := eachArrival(l, rec, func(r *row) error {
			if r.numbers[unmeasured] == 0 && r.completed() && r.has(lastTokenNs) {
				for i := range picks {
					picks[i].add(r)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, p := range picks {
			for _, row := range p.rows {
				s.Examples = append(s.Examples, p.example(row))
			}
		}
	}
	return nil
}

// e2e returns the E2E of a row in milliseconds.
func e2e(r *row) float64 { return float64(r.numbers[lastTokenNs]-r.numbers[startNs]) / 1e6 }

// pick keeps the rows whose E2E is nearest to one, the nearest first.
type pick struct {
	of   string
	most int
	near float64 // in milliseconds
	rows []*row
}

// add adds the row of a completed request to its place, and drops the furthest if there are too many.
func (p *pick) add(r *row) {
	far := func(r *row) float64 { return math.Abs(e2e(r) - p.near) }
	at := slices.IndexFunc(p.rows, func(b *row) bool {
		return cmp.Or(cmp.Compare(far(r), far(b)), inOrder(r.record, b.record)) < 0
	})
	if at < 0 {
		at = len(p.rows)
	}
	if at < p.most {
		p.rows = slices.Insert(p.rows, at, &row{})
		_ = p.rows[at].decode(r.kept()) // as r was
		p.rows = p.rows[:min(len(p.rows), p.most)]
	}
}

// example returns a row as an example.
func (p *pick) example(r *row) results.Example {
	start := r.numbers[startNs]
	of := func(from int64, name protoreflect.Name) *float64 { return since(from, r.optional(field(name))) }
	x := results.Example{Of: p.of, Index: r.index, Turn: r.turn, Agent: r.agent,
		Endpoint: naming.Redacted(r.stage.GetTarget().GetEndpoints()[r.numbers[field("endpoint")]]),
		HeldMs:   of(0, "held_ns"), ConnectMs: of(0, "connect_ns"), ServerQueueMs: of(0, "server_queue_ns"),
		SendDelayMs: *since(r.numbers[field("scheduled_ns")]+r.numbers[field("held_ns")], &start),
		SentMs:      of(start, "sent_ns"), FirstByteMs: of(start, "first_byte_ns"), TTFTMs: of(start, "first_token_ns"),
		E2EMs: e2e(r), Gaps: []results.Gap{}}
	if r.has(outputTokens) {
		x.OutputTokens = new(uint64(r.numbers[outputTokens]))
	}
	if trace := r.appendTrace(nil); trace != nil {
		x.TraceID = new(string(trace))
	}
	at := r.numbers[firstTokenNs]
	for _, gap := range r.gaps() {
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
