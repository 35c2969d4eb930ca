package dataset

import (
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Each kind of content with a path in the plan has a source, with a description, and no other kind has one.
func TestEveryFileHasASource(t *testing.T) {
	named := map[string]Source{}
	for _, s := range Sources() {
		named[s.Name] = s
	}
	fields := (&spatev1.Workload{}).ProtoReflect().Descriptor().Oneofs().ByName("content").Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		s, known := named[string(field.Name())]
		if hasFile := field.Message().Fields().ByName("path") != nil; known != hasFile {
			t.Errorf("%s has a file: %v, is a source: %v", field.Name(), hasFile, known)
		}
		if known && (s.Help == "" || s.Example == "") {
			t.Errorf("%s has no description", s.Name)
		}
	}
}
