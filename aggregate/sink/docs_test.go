package sink

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/docpart"
	"github.com/spate-load/spate/measure"
)

var update = flag.Bool("update", false, "write the table of docs/prometheus.md")

// nameRows returns the table of the names of metrics.
func nameRows() string {
	var b strings.Builder
	b.WriteString("| Prometheus | OpenTelemetry | Unit |\n|---|---|---|\n")
	for _, m := range measure.Metrics() {
		if m.Raw {
			continue
		}
		n := NameOf(MeasurementToDate, &Field{Key: m.Name, Kind: KindBuckets})
		unit := strings.NewReplacer("{", "", "}", "").Replace(n.Unit)
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", n.Prometheus(), n.OpenTelemetry(), unit)
	}
	return b.String()
}

// The table of docs/prometheus.md has the names of the catalogue: go test ./aggregate/sink -update writes it.
func TestTheNamesAreInTheDocs(t *testing.T) {
	docpart.Check(t, "../../docs/prometheus.md", map[string]string{"names": nameRows()}, *update,
		"go test ./aggregate/sink -update")
}
