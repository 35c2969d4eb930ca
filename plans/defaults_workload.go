package plans

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Defaults of a workload.
const (
	defaultFirstTokenID = 1000
	defaultLastTokenID  = 9999
	defaultMaxSkipped   = 0.01
	defaultBlockTokens  = 512
	defaultJSONLOSL     = 256
	defaultOrder        = "shuffled"
	defaultHistory      = "server"
	defaultBusting      = "none"
)

// filledWorkload returns a copy of w with its name and defaults.
func filledWorkload(w *spatev1.Workload) *spatev1.Workload {
	w = proto.CloneOf(w)
	w.Name = workloadName(w)
	w.CacheBusting = cmp.Or(w.CacheBusting, defaultBusting)
	switch content := w.GetContent().(type) {
	case *spatev1.Workload_Random:
		fillRandom(content.Random)
	case *spatev1.Workload_Sharegpt:
		fillFile(content.Sharegpt)
	case *spatev1.Workload_Jsonl:
		fillFile(content.Jsonl)
		content.Jsonl.Osl = cmp.Or(content.Jsonl.Osl, defaultJSONLOSL)
	case *spatev1.Workload_Sessions:
		fillSessions(content.Sessions)
	}
	if t := trace(w); t != nil {
		t.MaxSkipped = orShare(t.MaxSkipped)
	}
	if m := w.GetMooncake(); m != nil {
		m.BlockTokens = cmp.Or(m.BlockTokens, defaultBlockTokens)
	}
	return w
}

func fillRandom(r *spatev1.RandomContent) {
	r.FirstTokenId, r.LastTokenId = tokenIDs(r)
	fillLengths(r.IslLengths, maxLength)
	fillLengths(r.OslLengths, maxLength)
	if p := r.GetPrefix(); p != nil {
		p.Groups = cmp.Or(p.Groups, 1)
		p.Share = cmp.Or(p.Share, 1)
	}
}

func fillFile(f *spatev1.FileContent) {
	f.Order = cmp.Or(f.Order, defaultOrder)
	f.MaxSkipped = orShare(f.MaxSkipped)
	fillPlay(f.Sessions)
}

func fillSessions(s *spatev1.SessionContent) {
	fillLengths(s.TurnCounts, maxTurns)
	fillLengths(s.IslLengths, maxLength)
	fillLengths(s.OslLengths, maxLength)
	if s.Play == nil {
		s.Play = &spatev1.SessionPlay{}
	}
	fillPlay(s.Play)
}

func fillPlay(p *spatev1.SessionPlay) {
	if p != nil {
		p.History = cmp.Or(p.History, defaultHistory)
		p.ThinkTime = filledThinkTime(p.ThinkTime)
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
		return proto.Float64(defaultMaxSkipped)
	}
	return given
}

func tokenIDs(r *spatev1.RandomContent) (first, last uint32) {
	return cmp.Or(r.GetFirstTokenId(), defaultFirstTokenID), cmp.Or(r.GetLastTokenId(), defaultLastTokenID)
}

// workloadName returns the name of a workload, or its default name. It returns "" if the workload has no content
// either.
func workloadName(w *spatev1.Workload) string {
	if w.GetName() != "" {
		return w.GetName()
	}
	if r := w.GetRandom(); r.GetIsl() > 0 && r.GetOsl() > 0 && r.GetRangeRatio() == 0 {
		return fmt.Sprintf("%d:%d", r.GetIsl(), r.GetOsl())
	}
	return contentKind(w)
}

// contentKind returns the name of the field that holds a workload's content, or "" if there is none.
func contentKind(w *spatev1.Workload) string {
	m := w.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("content"))
	if field == nil {
		return ""
	}
	return field.TextName()
}

// trace returns the trace that a workload takes its lengths and times from. nil: the workload has no trace.
func trace(w *spatev1.Workload) *spatev1.TraceContent {
	for _, t := range []*spatev1.TraceContent{w.GetMooncake(), w.GetBurstgpt(), w.GetAzure()} {
		if t != nil {
			return t
		}
	}
	return nil
}

// PlaysSessions reports whether each arrival of a workload starts a session, whose turns are sent one after another.
func PlaysSessions(w *spatev1.Workload) bool {
	return w.GetSessions() != nil || w.GetSharegpt().GetSessions() != nil || w.GetJsonl().GetSessions() != nil
}

// contentFile returns the path of the file with a workload's content, or "" if there is none.
func contentFile(w *spatev1.Workload) string {
	for _, path := range []string{w.GetSonnet().GetPath(), w.GetSharegpt().GetPath(), w.GetJsonl().GetPath(),
		trace(w).GetPath()} {
		if path != "" {
			return path
		}
	}
	return ""
}
