package executor

import (
	"math"

	"github.com/spate-load/spate/workload"
)

// history is by how much a conversation up to an answer, that answer included, differs from one whose answers have the
// lengths that were asked for. Reasoning is the usual cause: an answer has it, the next prompt does not, because
// clients do not send it back and chat templates drop it.
type history struct {
	more    int64  // tokens that it is longer; negative: shorter
	unknown bool   // more is not known
	kept    uint32 // tokens of the last answer that the next prompt has: those that are not reasoning
	dropped bool   // the last answer had reasoning, so no cache has what follows it in the next prompt
}

// history returns the history after the request that has completed.
func (w *worker) history() history {
	var h history
	if p := w.ask.Previous; p > 0 && p <= len(w.histories) {
		h = w.histories[p-1]
	}
	o := &w.observation
	h.dropped = o.HasReasoningTokens || o.ReasoningFrames > 0
	h.unknown = h.unknown || h.dropped && !o.HasReasoningTokens || len(o.Calls) > 0
	if o.UncountedOutput || !o.Usage {
		return h // prompts are compared only with the server's usage
	}
	h.kept = uint32(min(o.OutputTokens-min(o.ReasoningTokens, o.OutputTokens), math.MaxUint32))
	h.more += int64(h.kept) - int64(w.ask.OSL)
	return h
}

// correct corrects the lengths of a request whose prompt continues the history.
func (h history) correct(s *workload.Spec) {
	longer := func(n uint32) uint32 { return uint32(min(max(int64(n)+h.more, 0), math.MaxUint32)) }
	if s.Shared > 0 {
		s.Shared = longer(s.Shared)
	}
	if h.dropped {
		s.Shared -= min(h.kept, s.Shared)
	}
	switch {
	case h.unknown:
		s.ISL = 0
	case s.ISL > 0:
		s.ISL = max(longer(s.ISL), 1)
	}
}
