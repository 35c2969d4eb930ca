package report

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// The metadata of a Parquet file name the run, its stages, the units and what each column means.
func TestParquetTellsWhatItIs(t *testing.T) {
	data := []byte(written(t, runDir(t, Parquet, inOrder))["requests.parquet"])
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	said := func(key string, into any) {
		t.Helper()
		text, found := file.Lookup(key)
		if !found {
			t.Errorf("no %s", key)
		} else if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	var stages []rowStage
	said("spate.stages", &stages)
	if len(stages) != 2 || stages[1].Stage != 1 || stages[1].Load == "" || stages[1].Target == "" ||
		stages[1].StartTime == nil {
		t.Errorf("stages %+v", stages)
	}
	meanings := make(map[string]string)
	said("spate.columns", &meanings)
	for _, column := range file.Root().Columns() {
		if meanings[column.Name()] == "" {
			t.Errorf("column %s is not explained", column.Name())
		}
	}
	if len(meanings) != len(file.Root().Columns()) {
		t.Errorf("%d meanings of %d columns", len(meanings), len(file.Root().Columns()))
	}
	if run, _ := file.Lookup("spate.run_id"); run != "sweep-1" {
		t.Errorf("run %q", run)
	}
	if units, _ := file.Lookup("spate.units"); !strings.Contains(units, "nanoseconds") {
		t.Errorf("units %q", units)
	}
}

// The table of columns in docs/results.md is the one in the code.
func TestColumnsAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	table := "| column | meaning |\n|---|---|\n"
	for _, c := range columns {
		table += "| `" + c.name + "` | " + c.meaning + " |\n"
	}
	if !strings.Contains(string(docs), table) {
		t.Errorf("docs/results.md has not this table of columns:\n%s", table)
	}
	if n := reflect.TypeFor[requestRow]().NumField(); n != len(columns) {
		t.Errorf("%d columns are explained of %d", len(columns), n)
	}
}
