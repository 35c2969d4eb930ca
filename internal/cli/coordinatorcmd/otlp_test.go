package coordinatorcmd

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Headers of a collector are secrets: they come by reference, and no error has one.
func TestOTLPHeaders(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got = q.Header }))
	defer server.Close()
	t.Setenv("SPATE_TEST_KEY", "s3cret=x,y")
	for name, c := range map[string]struct {
		settings OTLP
		want     string // of an error; empty: none
	}{
		"by reference":  {OTLP{Headers: []string{"api-key=env:SPATE_TEST_KEY"}}, ""},
		"not set":       {OTLP{Headers: []string{"api-key=env:SPATE_TEST_NOT_SET"}}, "--otlp-header api-key: the environment"},
		"no name":       {OTLP{Headers: []string{"a=b", "=s3cret"}}, "header 2: want NAME=VALUE"},
		"no value":      {OTLP{Headers: []string{"s3cret"}}, "header 1: want NAME=VALUE"},
		"a line break":  {OTLP{Headers: []string{"a=s3cret\nb"}}, "control character"},
		"Spate's own":   {OTLP{Headers: []string{"content-type=s3cret"}}, "is set by Spate"},
		"twice a token": {OTLP{Server: Server{Token: "s3cret"}, Headers: []string{"Authorization=s3cret"}}, "give one of them"},
	} {
		c.settings.URL = server.URL
		err := c.settings.Validate()
		if err == nil {
			db, failed := c.settings.Open(slog.New(slog.DiscardHandler))
			if err = failed; err == nil {
				err = db.Check(t.Context())
				db.Close()
			}
		}
		if c.want == "" && (err != nil || got.Get("Api-Key") != "s3cret=x,y") {
			t.Errorf("%s: %v, sent %v", name, err, got)
		} else if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := (&OTLP{Headers: []string{"a=b"}}).Validate(); err == nil || !strings.Contains(err.Error(), "needs --otlp-url") {
		t.Errorf("headers without a URL: %v", err)
	}
}
