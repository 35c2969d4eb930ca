package judge

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The judge must not depend on what it judges: of this module it imports only the script, and the script imports
// nothing.
func TestJudgeSharesNoCode(t *testing.T) {
	const module = "github.com/spate-load/spate/"
	seen := 0
	for dir, allowed := range map[string]string{".": module + "e2e/torture/script", "../script": ""} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				seen++
				if path, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(path, module) && path != allowed {
					t.Errorf("%s imports %s", f.Name, path)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no import was looked at")
	}
}
