package defaults

import (
	"errors"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Each default of the schema is a value of its field, and keeps the field's rules.
func TestFilled(t *testing.T) {
	for message := range spatev1.File_spate_v1_plan_proto.Messages().Len() {
		of := spatev1.File_spate_v1_plan_proto.Messages().Get(message)
		kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
		if err != nil {
			t.Fatal(err)
		}
		filled := Filled(kind.New().Interface()).ProtoReflect()
		for i := range of.Fields().Len() {
			field := of.Fields().Get(i)
			if proto.HasExtension(field.Options(), spatev1.E_DefaultValue) && !filled.Has(field) {
				t.Errorf("%s has its zero value by default", field.FullName())
			}
		}
		broken, is := errors.AsType[*protovalidate.ValidationError](protovalidate.Validate(filled.Interface()))
		if !is {
			continue
		}
		for _, v := range broken.Violations {
			if v.FieldDescriptor != nil && proto.HasExtension(v.FieldDescriptor.Options(), spatev1.E_DefaultValue) {
				t.Error(v)
			}
		}
	}
}
