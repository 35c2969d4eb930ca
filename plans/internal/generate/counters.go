package main

import (
	"fmt"
	"go/format"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// countersOf returns the constants of counters and the catalogues of counters and metrics as Go.
func countersOf(files *protoregistry.Files) ([]byte, error) {
	file, err := files.FindFileByPath(spatev1.File_spate_v1_metrics_proto.Path())
	if err != nil {
		return nil, err
	}
	return format.Source([]byte(source(file) + metrics(file)))
}

// source returns the constants and the catalogue, unformatted. The comment before a field of spatev1.Counters says what
// it counts; the one behind it has the unit, and "completed" if it counts completed requests.
func source(file protoreflect.FileDescriptor) string {
	var names, rows strings.Builder
	fields := file.Messages().ByName("Counters").Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		comments := file.SourceLocations().ByDescriptor(f)
		doc := firstSentence(comments)
		unit, completed, _ := strings.Cut(strings.TrimSpace(comments.TrailingComments), ", ")
		fmt.Fprintf(&names, "// %s: %s.\n%[1]s Counter = %[3]d\n", constant(string(f.Name())), doc, f.Number())
		fmt.Fprintf(&rows, "{%q, %q, %q, %t},\n", f.Name(), unit, doc, completed == "completed")
	}
	return fmt.Sprintf(`// Code generated from metrics.proto by make generate. DO NOT EDIT.

package measure

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

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

// metrics returns the catalogue of metrics, unformatted. The comment behind a value of spatev1.Metric has the unit, and
// behind a colon the parts of a stage that keep the metric, or "raw".
func metrics(file protoreflect.FileDescriptor) string {
	var rows strings.Builder
	values := file.Enums().ByName("Metric").Values()
	for i := 1; i < values.Len(); i++ {
		v := values.Get(i)
		comments := file.SourceLocations().ByDescriptor(v)
		unit, of, _ := strings.Cut(strings.TrimSpace(comments.TrailingComments), ": ")
		name := strings.ToLower(strings.TrimPrefix(string(v.Name()), "METRIC_"))
		fields := fmt.Sprintf("ID: spatev1.Metric_%s", v.Name())
		switch unit {
		case "tokens":
			name = strings.TrimSuffix(name, "_tokens") + "_tokens"
			fields += ", Unit: Tokens"
		case "thousandths":
			name = strings.TrimPrefix(name, "milli")
			fields += ", Unit: Thousandths"
		default:
			name += "_ms"
		}
		if of == "raw" {
			fields += ", Raw: true"
		} else if of != "" {
			parts := strings.NewReplacer(", ", "|", "breakdowns", "Breakdowns", "region windows", "RegionWindows",
				"paths", "Paths", "turns", "Turns").Replace(of)
			fields += ", Parts: " + parts
		}
		fmt.Fprintf(&rows, "{%s, Name: %q, Doc: %q},\n", fields, name, firstSentence(comments))
	}
	return fmt.Sprintf("\n// metrics is the catalogue of metrics, in the order of the protocol.\nvar metrics = [...]Metric{\n%s}\n",
		rows.String())
}

// firstSentence returns the first sentence of the comment before a field or a value, without its full stop.
func firstSentence(comments protoreflect.SourceLocation) string {
	doc, _, _ := strings.Cut(strings.Join(strings.Fields(comments.LeadingComments), " ")+" ", ". ")
	return doc
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
