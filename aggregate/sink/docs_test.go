package sink

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

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
	const page, begin, end = "../../docs/prometheus.md", "<!-- names -->\n", "<!-- end of names -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no part between %q and %q", page, begin, end)
	}
	want := before + begin + nameRows() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the table of %s is not that of the catalogue: go test ./aggregate/sink -update", page)
	}
}
