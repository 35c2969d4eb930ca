package registry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each API says what a request needs, under a name of its own.
func TestEachAPIIsComplete(t *testing.T) {
	for i, a := range All {
		if a.Check != nil {
			continue // a plan describes it
		}
		if a.Name == "" || a.Path == "" || a.Parse == nil || len(a.Prompts) == 0 ||
			len(a.MaxFields) == 0 && !a.NoOutput {
			t.Errorf("%q lacks a name, a path, a parser, prompts or the field for the length", a.Name)
		}
		if found, ok := Find(a.Name); !ok || found != a {
			t.Errorf("API %d is not found by its name %q", i, a.Name)
		}
		if a.Chat() && len(a.Prompts) > 1 {
			t.Errorf("%s takes messages, and other prompts too", a.Name)
		}
	}
	if a, ok := Find(""); !ok || a != All[0] {
		t.Error("no name is not the first API")
	}
	if _, ok := Find("x"); ok {
		t.Error("an unknown API is found")
	}
}

const root = "../.."

// docs/targets.md has a row for each API, with its path.
func TestAPIsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "targets.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range All {
		if row := "| `" + a.Name + "` | `" + a.Version + a.Path; !strings.Contains(string(page), row) {
			t.Errorf("docs/targets.md has no row that starts with %s", row)
		}
	}
}

// No code lists APIs by name: what differs between them is a fact of package api. The simulator is a server of its own
// and knows nothing of the client's facts, and package foreign has the names that other tools give APIs. Some APIs have
// the name of the only server that has them, and code may know servers by name.
func TestNoListOfAPIs(t *testing.T) {
	servers := []string{"sglang", "tei", "tgi", "triton"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		relative, _ := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{"api", "simulator", "bench", "e2e", "internal/foreign"}, relative) ||
				strings.HasPrefix(d.Name(), ".") && relative != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		names, err := namesIn(path)
		if len(names) > 1 && slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(servers, n) }) {
			t.Errorf("%s lists APIs by name: %q", relative, names)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// namesIn returns the names of APIs that a Go file has as strings.
func namesIn(path string) (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, _ := strconv.Unquote(literal.Value)
			if _, known := Find(text); text != "" && known && !slices.Contains(names, text) {
				names = append(names, text)
			}
		}
		return true
	})
	return names, nil
}
