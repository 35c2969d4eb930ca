// Command validateproto prints buf/validate/validate.proto from the descriptor that its Go module carries, so that
// plan.proto can import it without a copy of it in this repository. `make generate` calls it. It is a module of its
// own: nothing that builds or uses Spate needs its dependencies.
package main

import (
	"log"
	"os"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/jhump/protoreflect/v2/protoprint"
)

func main() {
	printer := protoprint.Printer{}
	if err := printer.PrintProtoFile(validate.File_buf_validate_validate_proto, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
