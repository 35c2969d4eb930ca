package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Programs are the paths of Spate's own programs.
type Programs struct{ Spate, Coordinator, Agent string }

// Build returns Spate's programs in .bin/tmp/programs at the module's root, and builds them if they are not current.
// `make test` builds them first, so that they are linked once for all packages.
func Build() (Programs, error) {
	root, err := moduleRoot()
	if err != nil {
		return Programs{}, err
	}
	dir := filepath.Join(root, ".bin", "tmp", "programs")
	// The same command as `make programs`, or they would be linked again.
	command := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", //nolint:noctx // no test runs yet
		"-o", dir+"/", "./cmd/...")
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -tags=grpcnotrace")
	if said, err := command.CombinedOutput(); err != nil {
		return Programs{}, fmt.Errorf("build the programs: %w\n%s", err, said)
	}
	return Programs{filepath.Join(dir, "spate"), filepath.Join(dir, "coordinator"), filepath.Join(dir, "agent")}, nil
}

// Servers is the environment variable that names the servers, separated by commas, against which tests must run.
const Servers = "SPATE_TEST_SERVERS"

// Needs reports whether tests must run against a server.
func Needs(server string) bool {
	return slices.Contains(strings.Split(os.Getenv(Servers), ","), server)
}

// Tool returns the path of a server that make builds into .bin/ at the module's root. The test is skipped, with a
// message that names the product, unless SPATE_TEST_SERVERS names the server. It then fails if the server is not built.
func Tool(tb testing.TB, name, product string) string {
	tb.Helper()
	if !Needs(name) {
		tb.Skipf("NOT TESTED AGAINST %s: make test-databases", strings.ToUpper(product))
	}
	root, err := moduleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(root, ".bin", name)
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("NO %s: %v: make .bin/%s", strings.ToUpper(product), err, name)
	}
	return path
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
