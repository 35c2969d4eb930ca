// Package defaults fills in what a plan leaves out: by the schema, and where a default depends on other fields. Its
// functions return copies.
package defaults

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Arrival is the default arrival process of an open loop.
const Arrival = "poisson"

// Filled returns a copy of a message in which the schema's defaults are in the fields that are not given, also of the
// messages within it. It returns nil if the message is nil.
func Filled[M proto.Message](m M) M {
	m = proto.CloneOf(m)
	Each(m, fill)
	return m
}

// Each calls do with a message and with all messages within it. Nil messages are left out.
func Each(m proto.Message, do func(protoreflect.Message)) {
	_ = protorange.Range(m.ProtoReflect(), func(v protopath.Values) error { // it returns no error
		if within, is := v.Index(-1).Value.Interface().(protoreflect.Message); is && within.IsValid() {
			do(within)
		}
		return nil
	})
}

// fill fills in a message, without those within it.
func fill(m protoreflect.Message) {
	missing := map[string]string{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		usual, _ := proto.GetExtension(fields.Get(i).Options(), spatev1.E_DefaultValue).(string)
		if usual != "" && !m.Has(fields.Get(i)) {
			missing[fields.Get(i).JSONName()] = usual
		}
	}
	if len(missing) == 0 {
		return
	}
	text, err := json.Marshal(missing)
	usual := m.New().Interface()
	if err = errors.Join(err, protojson.Unmarshal(text, usual)); err != nil {
		panic(fmt.Sprintf("the defaults of the schema: %v", err)) // a test of all of them finds it
	}
	proto.Merge(m.Interface(), usual)
}

// Abort returns a copy of a with its defaults, or nil if a is nil.
func Abort(a *spatev1.Abort) *spatev1.Abort {
	if a != nil && a.ErrorShare == nil {
		return proto.CloneOf(a)
	}
	return Filled(a)
}

// Phases returns a copy of the phases with the value at the end of each.
func Phases(phases []*spatev1.Phase) []*spatev1.Phase {
	var filled []*spatev1.Phase
	for _, p := range phases {
		p = proto.CloneOf(p)
		p.To = new(PhaseEnd(p))
		filled = append(filled, p)
	}
	return filled
}

// PhaseEnd returns the value at a phase's end.
func PhaseEnd(p *spatev1.Phase) float64 {
	if p.To == nil { //nolint:protogetter // whether it is given is what counts
		return p.GetFrom()
	}
	return p.GetTo()
}

// Defaults of a plan.
const (
	DrainTimeout = 60 * time.Second
	OnAgentLoss  = "fail"
)

// WholeLimits returns those of the limits that an answer in one piece can be held to: its E2E is known, and no time of
// a token. Nil: there are none.
func WholeLimits(s *spatev1.SLO) *spatev1.SLO {
	if s.GetE2E() == nil {
		return nil
	}
	return &spatev1.SLO{E2E: s.GetE2E()}
}

// Limits returns a workload and an SLO as a target can be held to them, for a stage: without limits on the times of
// tokens, if answers come in one piece. It returns those given, if nothing changes, and does not change them. A mixture
// has its limits in its parts then.
func Limits(t *spatev1.Target, w *spatev1.Workload, slo *spatev1.SLO) (*spatev1.Workload, *spatev1.SLO) {
	switch {
	case Streams(t):
		return w, slo
	case w.GetMix() == nil:
		return w, WholeLimits(slo)
	}
	limits := content.SLOs(&spatev1.Stage{Workload: w, Slo: slo})
	w = proto.CloneOf(w)
	for i, part := range w.GetMix().GetParts() {
		part.Slo = WholeLimits(limits[i])
	}
	return w, nil
}
