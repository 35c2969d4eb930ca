package main

import (
	"fmt"
	"go/format"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// countersOf returns the constants and the catalogue of counters as Go.
func countersOf(files *protoregistry.Files) ([]byte, error) {
	file, err := files.FindFileByPath(spatev1.File_spate_v1_metrics_proto.Path())
	if err != nil {
		return nil, err
	}
	return format.Source([]byte(source(file)))
}

// source returns the constants and the catalogue, unformatted. The comment before a field of spatev1.Counters says what
// it counts; the one behind it has the unit, and "completed" if it counts completed requests.
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
