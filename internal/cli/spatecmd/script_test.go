package spatecmd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

func TestMain(m *testing.M) {
	testscript.Main(leakFree{m}, map[string]func(){"spate": func() { os.Exit(Main("")) }})
}

// leakFree runs tests that must not leak goroutines.
type leakFree struct{ tests *testing.M }

func (l leakFree) Run() int {
	process.Parallel(6)
	code := l.tests.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestScripts gives scripts CLUSTER and others, addresses for the coordinators of one script each, PORT, that of a
// simulator on 127.0.0.1, STRICT, the URL of one that refuses fields that OpenAI does not know, and SMALL_MODEL, the
// URL of a server whose model "small" accepts 1,000 tokens. That server fails the test at any other request: no script
// may get as far as sending one.
func TestScripts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			t.Errorf("%s %s was sent", r.Method, r.URL)
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"small","object":"model","max_model_len":1000}]}`)
	}))
	// Scripts run in parallel: the server closes when all of them have ended.
	t.Cleanup(server.Close)
	engine, strict := config.Default(), config.Default()
	engine.Model.CacheBlocks = 1000
	strict.Dialect.ExactOutput, strict.Dialect.OwnedBy = config.Refused, "openai"
	_, port, err := net.SplitHostPort(strings.TrimPrefix(simulate(t, engine), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	clienttest.RunScripts(t, "SMALL_MODEL="+server.URL, "CLUSTER="+process.FreeAddress(t),
		"CLUSTER_COPY="+process.FreeAddress(t),
		"CLUSTER_ROLES="+process.FreeAddress(t), "CLUSTER_HISTORY="+process.FreeAddress(t),
		"PORT="+port, "STRICT="+simulate(t, strict),
		"SPATE_FAIL_ON=never") // a busy machine spoils measurements
}

// simulate starts a simulator, which ends after the test, and returns its URL.
func simulate(t *testing.T, c config.Config) string {
	t.Helper()
	simulated, err := simulator.Start(c, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = simulated.Close(context.Background()) })
	return simulated.URLs()[0]
}
