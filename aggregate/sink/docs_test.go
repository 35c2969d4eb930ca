package sink

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/filestest"
	"github.com/spate-load/spate/measure"
)

var update = flag.Bool("update", false, "write the exceptions of docs/prometheus.md")

// otherNames returns the metrics whose names in Prometheus and OpenTelemetry do not follow the rule of the page.
func otherNames() string {
	var b strings.Builder
	for _, m := range measure.Metrics() {
		if m.Raw {
			continue
		}
		base, isTime := strings.CutSuffix(m.Name, "_ms")
		prometheus := "spate_to_date_" + base
		if isTime {
			prometheus += "_seconds"
		}
		n := NameOf(MeasurementToDate, &Field{Key: m.Name, Kind: KindBuckets})
		if n.Prometheus() != prometheus || n.OpenTelemetry() != "spate.to_date."+base {
			fmt.Fprintf(&b, "* `%s` is `%s` and `%s`\n", m.Name, n.Prometheus(), n.OpenTelemetry())
		}
	}
	return b.String()
}

// docs/prometheus.md has the names of the catalogue: go test ./aggregate/sink -update writes the exceptions.
func TestTheNamesAreInTheDocs(t *testing.T) {
	filestest.CheckDoc(t, "../../docs/prometheus.md", map[string]string{"names": otherNames()}, *update,
		"go test ./aggregate/sink -update")
}
