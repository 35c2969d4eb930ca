// Package content says what a workload's content is: its kind, its name, its file, and whether it is a trace or plays
// sessions.
package content

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Name returns the name of a workload, or its default name. It returns "" if the workload has no content
// either.
func Name(w *spatev1.Workload) string {
	if w.GetName() != "" {
		return w.GetName()
	}
	if r := w.GetRandom(); r.GetIsl() > 0 && r.GetOsl() > 0 && r.GetRangeRatio() == 0 {
		return fmt.Sprintf("%d:%d", r.GetIsl(), r.GetOsl())
	}
	return Kind(w)
}

// Kind returns the name of the field that holds a workload's content, or "" if there is none.
func Kind(w *spatev1.Workload) string {
	m := w.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("content"))
	if field == nil {
		return ""
	}
	return field.TextName()
}

// Trace returns the trace that a workload takes its lengths and times from. nil: the workload has no trace.
func Trace(w *spatev1.Workload) *spatev1.TraceContent {
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

// File returns the path of the file with a workload's content, or "" if there is none.
func File(w *spatev1.Workload) string {
	for _, path := range []string{w.GetSonnet().GetPath(), w.GetSharegpt().GetPath(), w.GetJsonl().GetPath(),
		Trace(w).GetPath()} {
		if path != "" {
			return path
		}
	}
	return ""
}
