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

// nameRows returns the table of the names of counters and metrics.
func nameRows() string {
	var b strings.Builder
	b.WriteString("| Prometheus | OpenTelemetry | Unit | Meaning |\n|---|---|---|---|\n")
	add := func(kind Kind, key string) {
		n := NameOf(MeasurementToDate, &Field{Key: key, Kind: kind})
		unit := strings.NewReplacer("{", "", "}", "").Replace(n.Unit)
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", n.Prometheus(), n.OpenTelemetry(), unit, n.Doc)
	}
	for _, c := range measure.Counters() {
		add(KindInt, c.String())
	}
	for _, m := range measure.Metrics() {
		if !m.Raw {
			add(KindBuckets, m.Name)
		}
	}
	return b.String()
}

// The table of docs/prometheus.md has the names of the catalogue: go test ./aggregate/sink -update writes it.
func TestTheNamesAreInTheDocs(t *testing.T) {
	docpart.Check(t, "../../docs/prometheus.md", map[string]string{"names": nameRows()}, *update,
		"go test ./aggregate/sink -update")
}
