// Package content says what a workload's content is: its kind, its name, its file, and whether it is a trace or plays
// sessions. It goes by the type of the content's message, so that a new source of a known type (a trace, or rows of
// prompts) needs nothing here. Package workload/dataset has the sources.
package content

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/lists"
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
	switch r := w.GetRandom(); {
	case r.GetIsl() == 0 || r.GetOslLengths() != nil || r.GetRangeRatio() > 0:
	case r.GetOsl() == 0: // for targets without output tokens
		return fmt.Sprint(r.GetIsl())
	default:
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
	return lists.Each(w.GetMix().GetParts(), (*spatev1.Part).GetWorkload)
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

// SLOs returns the limits of the requests of a stage by part of its mixture, or of all of its requests. Nil elements:
// there are none.
func SLOs(s *spatev1.Stage) []*spatev1.SLO {
	parts := s.GetWorkload().GetMix().GetParts()
	if parts == nil {
		return []*spatev1.SLO{s.GetSlo()}
	}
	var slos []*spatev1.SLO
	for _, part := range parts {
		if part.GetSlo() != nil {
			slos = append(slos, part.GetSlo())
		} else {
			slos = append(slos, s.GetSlo())
		}
	}
	return slos
}

// HasSLO reports whether the requests of a stage have limits, which are then known for all of them.
func HasSLO(s *spatev1.Stage) bool { return !slices.Contains(SLOs(s), nil) }

// Models returns the names of the models of a mixture's part. Nil: its requests name the target's model.
func Models(p *spatev1.Part) []string {
	switch m := p.GetModels(); {
	case p.GetModel() != "":
		return []string{p.GetModel()}
	case len(m.GetNames()) > 0:
		return m.GetNames()
	default:
		var names []string
		for i := range m.GetCount() {
			names = append(names, fmt.Sprint(m.GetPrefix(), i))
		}
		return names
	}
}

// Variant is what a request's body has in place of what its target says.
type Variant struct {
	// Part is the index of the part of the mixture. 0 if there is none.
	Part int
	// Model is the name of the model. Empty: the target's.
	Model string
	// Fields are fields that the target's body does not have, or has with other values.
	Fields map[string]any
}

// Over returns a target's fields of bodies with those of the variant. It does not change them.
func (v Variant) Over(body map[string]any) map[string]any {
	if len(v.Fields) == 0 {
		return body
	}
	all := make(map[string]any, len(body)+len(v.Fields))
	maps.Copy(all, body)
	maps.Copy(all, v.Fields)
	return all
}

// Variants returns the variants of the requests of a workload: one for each model of each part of a mixture, in the
// order of the parts, or else one without anything.
func Variants(w *spatev1.Workload) []Variant {
	if w.GetMix() == nil {
		return []Variant{{}}
	}
	var variants []Variant
	for i, part := range w.GetMix().GetParts() {
		models := Models(part)
		if models == nil {
			models = []string{""}
		}
		for _, model := range models {
			variants = append(variants, Variant{Part: i, Model: model, Fields: part.GetBody().AsMap()})
		}
	}
	return variants
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

// Path returns the path of the file with a workload's content, and the field of the workload that has it. It returns ""
// if there is none.
func Path(w *spatev1.Workload) (path, field string) {
	_, m := Of(w)
	if file, ok := m.(interface{ GetPath() string }); ok {
		return file.GetPath(), Kind(w) + ".path"
	}
	return "", ""
}

// Play returns how the sessions of a workload are played. false: an arrival of the workload is one request, or the
// workload is a mixture.
func Play(w *spatev1.Workload) (play *spatev1.SessionPlay, sessions bool) {
	if s := w.GetSessions(); s != nil {
		return s.GetPlay(), true
	}
	play = cmp.Or(File(w).GetSessions(), Trace(w).GetSessions())
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
