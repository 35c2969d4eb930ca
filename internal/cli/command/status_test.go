package command

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// page gets a page from the status server.
func page(t *testing.T, s *Status, healthy error, path string) (code int, body string) {
	t.Helper()
	c := Collector(func(gauge, counter Add) {
		gauge("spate_test_level", "A level.", 1.5, nil)
		counter("spate_test_events_total", "Events.", 7, nil)
		gauge("spate_test_parts", "Parts.", 2, prometheus.Labels{"kind": "a"})
		gauge("spate_test_parts", "Parts.", 3, prometheus.Labels{"kind": "b"})
	})
	w := httptest.NewRecorder()
	s.handler(c, func() error { return healthy }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestStatusPages(t *testing.T) {
	code, metrics := page(t, &Status{}, nil, "/metrics")
	for _, want := range []string{
		"# TYPE spate_test_level gauge\nspate_test_level 1.5\n", "spate_test_events_total 7\n",
		"spate_test_parts{kind=\"a\"} 2\n",
		"spate_test_parts{kind=\"b\"} 3\n", "go_goroutines ", "process_cpu_seconds_total ",
	} {
		if code != http.StatusOK || !strings.Contains(metrics, want) {
			t.Errorf("%d, no %q in\n%s", code, want, metrics)
		}
	}
	if strings.Contains(metrics, "spate_test_unknown") {
		t.Error("a value that is not known is told")
	}
	if code, body := page(t, &Status{}, nil, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthy: %d %q", code, body)
	}
	if code, body := page(t, &Status{}, errors.New("not connected"),
		"/healthz"); code != http.StatusServiceUnavailable || body != "not connected\n" {
		t.Errorf("not healthy: %d %q", code, body)
	}
	for pprof, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		if code, _ := page(t, &Status{PProf: pprof}, nil, "/debug/pprof/"); code != want {
			t.Errorf("pprof %v: %d", pprof, code)
		}
	}
}

// By default only this machine can read a program's profiles.
func TestProfilesArePublicOnRequestOnly(t *testing.T) {
	for _, c := range []struct {
		status Status
		wrong  bool
	}{
		{Status{Listen: "127.0.0.1:9464", PProf: true}, false},
		{Status{Listen: "0.0.0.0:9464"}, false},
		{Status{Listen: "0.0.0.0:9464", PProf: true}, true},
		{Status{Listen: ":9464", PProf: true}, true},
		{Status{Listen: "10.0.0.1:9464", PProf: true, PProfPublic: true}, false},
	} {
		if err := c.status.Check(); (err != nil) != c.wrong {
			t.Errorf("%+v: %v", c.status, err)
		}
	}
}
