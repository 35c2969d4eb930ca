package config

import (
	"reflect"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// FromPlan returns the configuration of a plan's simulated target: Default, overridden by what the plan sets. A
// duration that the plan sets to zero is zero. A nil target gives Default.
func FromPlan(t *spatev1.SimulatedTarget) Config {
	c := Default()
	c.Take(t)
	return c
}

// Take sets what a plan's simulated target sets: the fields whose tag `plan` has its name.
func (c *Config) Take(t *spatev1.SimulatedTarget) {
	setFields(reflect.ValueOf(c).Elem(), t.ProtoReflect())
	if p := t.GetErrorShare(); p > 0 {
		c.Faults = []Fault{{Kind: FaultServerError, Probability: p}}
	}
	if k := t.GetSpeed(); k > 0 {
		c.Model.SpeedUp(k)
		c.Pace.SpeedUp(k)
	}
}

// setFields sets the fields of a struct, and of the structs in it, to those fields of a message that are set.
func setFields(of reflect.Value, from protoreflect.Message) {
	for i := range of.NumField() {
		field, v := of.Type().Field(i), of.Field(i)
		if v.Kind() == reflect.Struct {
			setFields(v, from)
			continue
		}
		f := from.Descriptor().Fields().ByName(protoreflect.Name(field.Tag.Get("plan")))
		if f == nil || !from.Has(f) {
			continue
		}
		switch value := from.Get(f).Interface().(type) {
		case uint32:
			v.SetInt(int64(value))
		case float64:
			v.SetFloat(value)
		case bool:
			v.SetBool(value)
		case string:
			v.SetString(value)
		case protoreflect.Message:
			d := value.Interface().(*durationpb.Duration) //nolint:forcetypeassert // it has no other messages
			v.SetInt(int64(d.AsDuration()))
		}
	}
}
