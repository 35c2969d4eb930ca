// Package content says what a workload takes its content from, by the type of the content's message, so that a new file
// form of a known type (a trace, or rows of prompts) needs nothing here. Package workload/dataset has the forms.
package content

import (
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Of returns the field number and the message of a workload's content. 0 and nil: the workload has none.
func Of(w *spatev1.Workload) (uint32, proto.Message) {
	m := w.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("content"))
	if field == nil {
		return 0, nil
	}
	return uint32(field.Number()), m.Get(field).Message().Interface()
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
	return play, play != nil
}
