// Command schemagen prints the JSON Schema of plans. It reads the output of `buf build` from standard input, because
// compiled Go does not have the comments of the proto files. `make generate` runs it.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/spate-load/spate/plans/internal/jsonschema"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Stdin, os.Stdout); err != nil {
		log.Fatal("schemagen: ", err)
	}
}

func run(in io.Reader, out io.Writer) error {
	image, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	comments, err := comments(image, spatev1.File_spate_v1_plan_proto.Path())
	if err != nil {
		return err
	}
	schema, err := jsonschema.Generate((&spatev1.Plan{}).ProtoReflect().Descriptor(), comments)
	if err != nil {
		return err
	}
	_, err = out.Write(schema)
	return err
}

// comments returns the comments before the messages and fields of one file.
func comments(image []byte, path string) (jsonschema.Comments, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(image, &set); err != nil {
		return nil, fmt.Errorf("standard input is not what `buf build` writes: %w", err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, err
	}
	file, err := files.FindFileByPath(path)
	if err != nil {
		return nil, err
	}
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
	return found, nil
}
