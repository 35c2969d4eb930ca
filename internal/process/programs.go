package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Programs are the paths of Spate's own programs.
type Programs struct{ Spate, Coordinator, Agent string }

// Build builds Spate's programs into a directory, under their installed names.
func Build(dir string) (Programs, error) {
	root, err := moduleRoot()
	if err != nil {
		return Programs{}, err
	}
	// As `make build` does, without what only debuggers need, which takes a third of the time.
	command := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir, //nolint:noctx // no test runs yet
		"./cmd/spate", "./cmd/coordinator", "./cmd/agent")
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := command.CombinedOutput(); err != nil {
		return Programs{}, fmt.Errorf("build the programs: %w\n%s", err, said)
	}
	built := Programs{filepath.Join(dir, "spate"), filepath.Join(dir, "spate-coordinator"),
		filepath.Join(dir, "spate-agent")}
	return built, errors.Join(os.Rename(filepath.Join(dir, "coordinator"), built.Coordinator),
		os.Rename(filepath.Join(dir, "agent"), built.Agent))
}

// Tool returns the path of a program that make builds into .bin/ at the module's root. If the program is not built, the
// test fails under CI=true and is skipped otherwise, with a message that names the product.
func Tool(tb testing.TB, name, product string) string {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(root, ".bin", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	product = strings.ToUpper(product)
	if os.Getenv("CI") == "true" {
		tb.Fatalf("NO %s: %s is missing, and under CI=true it must be there: make .bin/%s", product, path, name)
	}
	tb.Skipf("NOT TESTED AGAINST %s: %s is missing: make .bin/%s", product, path, name)
	return ""
}

var errNoModule = errors.New("no go.mod above the test's directory")

// moduleRoot returns the directory of the go.mod above the test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errNoModule
		}
		dir = parent
	}
}
