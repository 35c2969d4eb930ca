// Command schemagen prints the JSON Schema of plans. It reads the output of `buf build` from standard input, because
// compiled Go does not have the comments of the proto files. `make generate` runs it.
package main

import (
	"io"
	"log"
	"os"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/protosource"
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
	file, err := protosource.Read(in, spatev1.File_spate_v1_plan_proto.Path())
	if err != nil {
		return err
	}
	schema, err := jsonschema.Generate((&spatev1.Plan{}).ProtoReflect().Descriptor(), comments(file))
	if err != nil {
		return err
	}
	_, err = out.Write(schema)
	return err
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
