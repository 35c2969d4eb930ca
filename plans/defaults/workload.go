package defaults

import (
	"cmp"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Limits of the schema for lengths and turns.
const (
	MaxLength = 16_777_216
	MaxTurns  = 10_000
)

// Workload returns a copy of w with its name and defaults.
func Workload(w *spatev1.Workload) *spatev1.Workload {
	w = Filled(w)
	w.Name = content.Name(w)
	if w.GetMix() != nil {
		w.CacheBusting = "" // its parts have it
	}
	for _, part := range content.Parts(w) {
		part.Name = content.Name(part)
		complete(part)
	}
	return w
}

// complete fills in the defaults that depend on other fields.
func complete(w *spatev1.Workload) {
	switch _, of := content.Of(w); of := of.(type) {
	case *spatev1.RandomContent:
		if of.OslLengths == nil {
			of.Osl = cmp.Or(of.Osl, 1) // The rules require it unless the targets have no output tokens.
		}
		if i := of.GetImages(); len(i.GetUrls()) > 0 {
			i.Format, i.Distinct = "", 0
		}
	case *spatev1.TraceContent:
		blocks := map[string]uint32{"mooncake": 512, "bailian": 16}
		of.BlockTokens = cmp.Or(of.BlockTokens, blocks[content.Kind(w)])
		if of.Sessions != nil && of.Sessions.DelayScale == nil {
			of.Sessions.DelayScale = new(1.0)
		}
	case *spatev1.SessionContent:
		for _, n := range []*spatev1.NormalLengths{of.GetTurnCounts().GetNormal(), of.GetTurnCounts().GetLognormal()} {
			if n != nil {
				n.Max = min(n.Max, MaxTurns)
			}
		}
		of.Play = cmp.Or(of.Play, Filled(&spatev1.SessionPlay{}))
	}
}
