// Command generate prints the counters of package measure as Go. It reads the output of `buf build` from standard input,
// because compiled Go does not have the comments of the proto files. `make generate` runs it.
//
// The comment before a field of spatev1.Counters says what it counts; the one behind it has the unit, and "completed" if
// it counts completed requests.
package main

import (
	"fmt"
	"go/format"
	"io"
	"log"
	"os"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/protosource"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Stdin, os.Stdout); err != nil {
		log.Fatal("generate: ", err)
	}
}

func run(in io.Reader, out io.Writer) error {
	file, err := protosource.Read(in, spatev1.File_spate_v1_metrics_proto.Path())
	if err != nil {
		return err
	}
	code, err := format.Source([]byte(source(file)))
	if err != nil {
		return err
	}
	_, err = out.Write(code)
	return err
}

// source returns the constants and the catalogue.
func source(file protoreflect.FileDescriptor) string {
	var names, rows strings.Builder
	fields := file.Messages().ByName("Counters").Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		comments := file.SourceLocations().ByDescriptor(f)
		doc, _, _ := strings.Cut(strings.Join(strings.Fields(comments.LeadingComments), " ")+" ", ". ")
		unit, completed, _ := strings.Cut(strings.TrimSpace(comments.TrailingComments), ", ")
		fmt.Fprintf(&names, "// %s: %s.\n%[1]s Counter = %[3]d\n", constant(string(f.Name())), doc, f.Number())
		fmt.Fprintf(&rows, "{%q, %q, %q, %t},\n", f.Name(), unit, doc, completed == "completed")
	}
	return fmt.Sprintf(`// Code generated from metrics.proto by make generate. DO NOT EDIT.

package measure

// Counters, by their numbers in the protocol.
const (
%s
// CounterCount is one more than the highest counter, so that a counter is an index of Counts.
CounterCount = %d
)

// counterTable is the catalogue of counters.
var counterTable = [CounterCount - 1]counter{
%s}
`, names.String(), fields.Len()+1, rows.String())
}

// constant returns the Go name of a field.
func constant(field string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(field, "_") {
		switch word {
		case "isl", "osl":
			b.WriteString(strings.ToUpper(word))
		default:
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}
