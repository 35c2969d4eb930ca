package dataset

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Source is a form of file that workloads take their content from. A new source is a field of Workload.content in
// plan.proto, and a file of this package that registers it.
type Source struct {
	// Name is the name of the field in a plan.
	Name string
	// Help says in a few words what such a file has, and Example describes its text in a sentence.
	Help, Example string
	// build makes the builder read the workload's file.
	build func(b *builder, w *spatev1.Workload, o Options)
}

// sources are the sources by the number of their field in a workload, which identifies the form of a rows file.
var sources = map[uint32]Source{}

// register adds a source. It panics unless a workload has a field of its name that no other source has.
func register(name string, s Source) {
	fields := (*spatev1.Workload)(nil).ProtoReflect().Descriptor().Oneofs().ByName("content").Fields()
	field := fields.ByName(protoreflect.Name(name))
	if field == nil || sources[uint32(field.Number())].build != nil {
		panic(fmt.Sprintf("dataset: source %q is not a field of a workload, or registered twice", name))
	}
	s.Name = name
	sources[uint32(field.Number())] = s
}

// Sources returns the sources in the order of their fields.
func Sources() []Source {
	var all []Source
	for _, number := range slices.Sorted(maps.Keys(sources)) {
		all = append(all, sources[number])
	}
	return all
}
