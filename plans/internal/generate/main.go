// Command generate writes two files whose paths it is given: the JSON Schema of plans, and the catalogues of package
// measure as Go. It reads the output of `buf build` from standard input, because compiled Go does not have the comments
// of the proto files. `make generate` runs it.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/spate-load/spate/plans/internal/jsonschema"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: generate SCHEMA COUNTERS")
	}
	if err := run(os.Stdin, os.Args[1], os.Args[2]); err != nil {
		log.Fatal("generate: ", err)
	}
}

// run writes both files if both can be made.
func run(image io.Reader, schemaPath, countersPath string) error {
	files, err := read(image)
	if err != nil {
		return err
	}
	schema, err1 := schemaOf(files)
	counters, err2 := countersOf(files)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(schemaPath, schema, 0o644), os.WriteFile(countersPath, counters, 0o644))
}

// read returns the files of an image, the output of `buf build`.
func read(image io.Reader) (*protoregistry.Files, error) {
	data, err := io.ReadAll(image)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("standard input is not what `buf build` writes: %w", err)
	}
	return protodesc.NewFiles(&set)
}

// schemaOf returns the JSON Schema of plans.
func schemaOf(files *protoregistry.Files) ([]byte, error) {
	file, err := files.FindFileByPath(spatev1.File_spate_v1_plan_proto.Path())
	if err != nil {
		return nil, err
	}
	return jsonschema.Generate((&spatev1.Plan{}).ProtoReflect().Descriptor(), comments(file))
}

// comments returns the comments before the messages and fields of one file.
func comments(file protoreflect.FileDescriptor) jsonschema.Comments {
	found := make(jsonschema.Comments)
	note := func(d protoreflect.Descriptor) {
		text := file.SourceLocations().ByDescriptor(d).LeadingComments
		found[d.FullName()] = strings.Join(strings.Fields(text), " ")
	}
	for i := range file.Messages().Len() {
		message := file.Messages().Get(i)
		note(message)
		for j := range message.Fields().Len() {
			note(message.Fields().Get(j))
		}
	}
	return found
}
