// Package content says what a workload's content is: its kind, its name, its file, and whether it is a trace or plays
// sessions. It goes by the type of the content's message, so that a new source of a known type (a trace, or rows of
// prompts) needs nothing here. Package workload/dataset has the sources.
package content

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Of returns the field number and the message of a workload's content. 0 and nil: the workload has none.
func Of(w *spatev1.Workload) (uint32, proto.Message) {
	field := fieldOf(w)
	if field == nil {
		return 0, nil
	}
	return uint32(field.Number()), w.ProtoReflect().Get(field).Message().Interface()
}

// fieldOf returns the field that holds a workload's content, or nil.
func fieldOf(w *spatev1.Workload) protoreflect.FieldDescriptor {
	m := w.ProtoReflect()
	return m.WhichOneof(m.Descriptor().Oneofs().ByName("content"))
}

// Name returns the name of a workload, or its default name. It returns "" if the workload has no content either.
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
	if field := fieldOf(w); field != nil {
		return field.TextName()
	}
	return ""
}

// Parts returns the workloads that a workload's requests are made from: those of a mixture's parts, or the workload
// itself.
func Parts(w *spatev1.Workload) []*spatev1.Workload {
	if w.GetMix() == nil {
		return []*spatev1.Workload{w}
	}
	var parts []*spatev1.Workload
	for _, part := range w.GetMix().GetParts() {
		parts = append(parts, part.GetWorkload())
	}
	return parts
}

// FullName returns the name of one of the Parts of a workload among all those of a plan. No workload has such a name
// as a mixture's part.
func FullName(w, part *spatev1.Workload) string {
	if w == part {
		return Name(w)
	}
	return Name(w) + " > " + Name(part)
}

// Source is a workload, and the rows of its file. Rows is nil if it has none.
type Source struct {
	Workload *spatev1.Workload
	Rows     *spatev1.Dataset
}

// Sources returns the Parts of a stage's workload with their rows.
func Sources(s *spatev1.Stage) []Source {
	var sources []Source
	for i, part := range Parts(s.GetWorkload()) {
		source := Source{Workload: part, Rows: s.GetDataset()}
		if s.GetWorkload().GetMix() != nil {
			source.Rows = nil
			if i < len(s.GetPartDatasets()) && s.GetPartDatasets()[i].GetSha256() != "" {
				source.Rows = s.GetPartDatasets()[i]
			}
		}
		sources = append(sources, source)
	}
	return sources
}

// Trace returns the trace that a workload takes its lengths and times from. Nil: the workload has no trace.
func Trace(w *spatev1.Workload) *spatev1.TraceContent {
	_, m := Of(w)
	trace, _ := m.(*spatev1.TraceContent)
	return trace
}

// File returns the file with prompts or conversations that a workload takes. Nil: the workload has no such file.
func File(w *spatev1.Workload) *spatev1.FileContent {
	_, m := Of(w)
	file, _ := m.(*spatev1.FileContent)
	return file
}

// Path returns the path of the file with a workload's content, or "" if there is none.
func Path(w *spatev1.Workload) string {
	_, m := Of(w)
	if file, ok := m.(interface{ GetPath() string }); ok {
		return file.GetPath()
	}
	return ""
}

// Play returns how the sessions of a workload are played. false: an arrival of the workload is one request, or the
// workload is a mixture.
func Play(w *spatev1.Workload) (play *spatev1.SessionPlay, sessions bool) {
	if s := w.GetSessions(); s != nil {
		return s.GetPlay(), true
	}
	play = File(w).GetSessions()
	if play == nil {
		play = Trace(w).GetSessions()
	}
	return play, play != nil
}

// PlaysSessions reports whether arrivals of a workload start sessions, whose turns are sent one after another. In a
// mixture, those of some parts may.
func PlaysSessions(w *spatev1.Workload) bool {
	return slices.ContainsFunc(Parts(w), func(part *spatev1.Workload) bool {
		_, sessions := Play(part)
		return sessions
	})
}

// Traces returns the kinds of content that are traces.
func Traces() []string {
	fields := (*spatev1.Workload)(nil).ProtoReflect().Descriptor().Oneofs().ByName("content").Fields()
	trace := (*spatev1.TraceContent)(nil).ProtoReflect().Descriptor().FullName()
	var names []string
	for i := range fields.Len() {
		if field := fields.Get(i); field.Message().FullName() == trace {
			names = append(names, field.TextName())
		}
	}
	return names
}
