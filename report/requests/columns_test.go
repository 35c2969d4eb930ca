package requests

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The table of columns in docs/results.md is the one in the code.
func TestColumnsAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../docs/results.md")
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
	if n := reflect.TypeFor[Row]().NumField(); n != len(columns) {
		t.Errorf("%d columns are explained of %d", len(columns), n)
	}
}
