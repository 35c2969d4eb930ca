package defaults

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Defaults of a workload.
const (
	maxSkipped   = 0.01
	blockTokens  = 512
	bailianBlock = 16
	order        = "shuffled"
	history      = "server"
	busting      = "none"
)

// Limits of the schema for lengths and turns.
const (
	MaxLength = 16_777_216
	MaxTurns  = 10_000
)

// DistinctImages is how many different images are made unless the plan says otherwise.
const DistinctImages = 16

// Workload returns a copy of w with its name and defaults.
func Workload(w *spatev1.Workload) *spatev1.Workload {
	w = proto.CloneOf(w)
	w.Name = content.Name(w)
	if w.GetMix() == nil {
		w.CacheBusting = cmp.Or(w.CacheBusting, busting)
	}
	switch _, of := content.Of(w); of := of.(type) {
	case *spatev1.RandomContent:
		fillRandom(of)
	case *spatev1.FileContent:
		fillFile(of)
	case *spatev1.TraceContent:
		of.MaxSkipped = orShare(of.MaxSkipped)
		fillPlay(of.Sessions)
		if of.Sessions != nil && of.Sessions.DelayScale == nil {
			of.Sessions.DelayScale = proto.Float64(1)
		}
	case *spatev1.SessionContent:
		fillSessions(of)
	case *spatev1.Mixture:
		for _, part := range of.GetParts() {
			part.Workload = Workload(part.GetWorkload())
		}
	}
	if m := w.GetMooncake(); m != nil {
		m.BlockTokens = cmp.Or(m.BlockTokens, blockTokens)
	}
	if b := w.GetBailian(); b != nil {
		b.BlockTokens = cmp.Or(b.BlockTokens, bailianBlock)
	}
	return w
}

func fillRandom(r *spatev1.RandomContent) {
	fillLengths(r.IslLengths, MaxLength)
	if r.OslLengths == nil {
		r.Osl = cmp.Or(r.Osl, 1) // The rules require it unless the targets have no output tokens.
	}
	fillLengths(r.OslLengths, MaxLength)
	if i := r.GetImages(); i != nil {
		i.Count = cmp.Or(i.Count, 1)
		if len(i.Urls) == 0 {
			i.Format, i.Distinct = cmp.Or(i.Format, "png"), cmp.Or(i.Distinct, DistinctImages)
		}
	}
	if p := r.GetPrefix(); p != nil {
		p.Groups = cmp.Or(p.Groups, 1)
		p.Share = cmp.Or(p.Share, 1)
	}
}

func fillFile(f *spatev1.FileContent) {
	f.Order = cmp.Or(f.Order, order)
	f.MaxSkipped = orShare(f.MaxSkipped)
	fillPlay(f.Sessions)
}

func fillSessions(s *spatev1.SessionContent) {
	fillLengths(s.TurnCounts, MaxTurns)
	fillLengths(s.IslLengths, MaxLength)
	fillLengths(s.OslLengths, MaxLength)
	if s.Play == nil {
		s.Play = &spatev1.SessionPlay{}
	}
	fillPlay(s.Play)
}

func fillPlay(p *spatev1.SessionPlay) {
	if p != nil {
		p.History = cmp.Or(p.History, history)
		p.ThinkTime = ThinkTime(p.ThinkTime)
	}
}

// fillLengths sets the missing bounds of a normal or lognormal distribution.
func fillLengths(l *spatev1.Lengths, most uint32) {
	for _, n := range []*spatev1.NormalLengths{l.GetNormal(), l.GetLognormal()} {
		if n != nil {
			n.Min, n.Max = cmp.Or(n.Min, 1), cmp.Or(n.Max, most)
		}
	}
}

// orShare returns the given share, even if it is 0, or the default.
func orShare(given *float64) *float64 {
	if given == nil {
		return new(maxSkipped)
	}
	return given
}
