package results

import (
	"os"
	"strings"
	"testing"
)

// docs/results.md, which explains results.json, names all fields of it.
func TestEveryFieldIsInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, def := range generated(t).Defs {
		for field := range def.Properties {
			if !strings.Contains(string(page), "`"+field) && !strings.Contains(string(page), "."+field+"`") &&
				!strings.Contains(string(page), `"`+field+`"`) {
				t.Errorf("docs/results.md does not name %s.%s", name, field)
			}
		}
	}
}
