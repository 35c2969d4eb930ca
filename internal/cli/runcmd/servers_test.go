package runcmd

import (
	"slices"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// {port} is that of the first endpoint, which may have a path or no port.
func TestPortOfAServer(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:8000": "8000", "http://127.0.0.1:8000/v1": "8000", "http://[::1]:8000/v3?x=a:b": "8000",
		"https://engine.example": "443",
	} {
		target := &spatev1.Target{Endpoints: []string{endpoint, "http://127.0.0.1:1"}}
		if got := withPort(target, []string{"serve", "--port={port}"}); !slices.Equal(got, []string{"serve", "--port=" + want}) {
			t.Errorf("%s: %q", endpoint, got)
		}
	}
}
