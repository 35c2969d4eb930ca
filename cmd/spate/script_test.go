package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spate-load/spate/cmd/internal/script"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"spate": main}) }

// TestScripts gives scripts SMALL_MODEL, the URL of a server whose model "small" takes 1,000 tokens. It answers no request: no script may
// get as far as sending one.
func TestScripts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			t.Errorf("%s %s was sent", r.Method, r.URL)
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"small","object":"model","max_model_len":1000}]}`)
	}))
	t.Cleanup(server.Close) // scripts run beside one another: when they have all ended
	script.Run(t, "SMALL_MODEL="+server.URL)
}
