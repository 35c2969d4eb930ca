// Package content says what a workload's content is: its kind, its name, its file, and whether it is a trace or plays
// sessions. It goes by the type of the content's message, so that a new source of a known type (a trace, or rows of
// prompts) needs nothing here. Package workload/dataset has the sources.
package content

import (
	"fmt"

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

// Play returns how the sessions of a workload are played. false: an arrival of the workload is one request.
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

// PlaysSessions reports whether each arrival of a workload starts a session, whose turns are sent one after another.
func PlaysSessions(w *spatev1.Workload) bool {
	_, sessions := Play(w)
	return sessions
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
