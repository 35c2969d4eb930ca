package otlp

import (
	"flag"
	"fmt"
	"testing"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/internal/filestest"
)

var update = flag.Bool("update", false, "write the table of docs/otlp.md")

// The table of docs/otlp.md has the conventions that are followed: go test ./aggregate/sink/otlp -update writes it.
func TestConventionsAreInTheDocs(t *testing.T) {
	rows := "| Convention | is Spate's | Meaning |\n|---|---|---|\n"
	for _, c := range Conventions {
		name := sink.NameOf(sink.MeasurementToDate, &sink.Field{Key: c.Metric, Kind: sink.KindBuckets})
		token := ""
		if c.TokenType != "" {
			token = fmt.Sprintf(", `gen_ai.token.type=%q`", c.TokenType)
		}
		rows += fmt.Sprintf("| %#q%s | %#q | %s |\n", c.Name, token, name.OpenTelemetry(), name.Doc)
	}
	filestest.CheckDoc(t, "../../../docs/otlp.md", map[string]string{"conventions": rows}, *update,
		"go test ./aggregate/sink/otlp -update")
}
