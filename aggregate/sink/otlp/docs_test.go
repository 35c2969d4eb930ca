package otlp

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/sink"
)

var update = flag.Bool("update", false, "write the table of docs/otlp.md")

// The table of docs/otlp.md has the conventions that are followed: go test ./aggregate/sink/otlp -update writes it.
func TestConventionsAreInTheDocs(t *testing.T) {
	const page, begin, end = "../../../docs/otlp.md", "<!-- conventions -->\n", "<!-- end of conventions -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no part between %q and %q", page, begin, end)
	}
	rows := "| Convention | is Spate's | Meaning |\n|---|---|---|\n"
	for _, c := range Conventions {
		name := sink.NameOf(sink.MeasurementToDate, &sink.Field{Key: c.Metric, Kind: sink.KindBuckets})
		token := ""
		if c.TokenType != "" {
			token = fmt.Sprintf(", `gen_ai.token.type=%q`", c.TokenType)
		}
		rows += fmt.Sprintf("| %#q%s | %#q | %s |\n", c.Name, token, name.OpenTelemetry(), name.Doc)
	}
	want := before + begin + rows + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the table of %s is not that of the program: go test ./aggregate/sink/otlp -update", page)
	}
}
