package requests

import (
	"os"
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
}
