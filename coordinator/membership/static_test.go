package membership

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// names returns a resolver for known names. An IP resolves to itself.
func names(known map[string][]string) resolver {
	return func(_ context.Context, host string) ([]string, error) {
		if strings.ContainsAny(host, ":0123456789") {
			return []string{host}, nil
		}
		if ips := known[host]; len(ips) > 0 {
			return slices.Clone(ips), nil
		}
		return nil, errors.New("no such host")
	}
}

func TestStaticNamesStandForAllTheirAddresses(t *testing.T) {
	known := map[string][]string{"many": {"10.0.0.2", "10.0.0.1"}, "six": {"fd00::1"}}
	for _, tc := range []struct {
		list Static
		want string
		err  string
	}{
		{Static{"many:7700"}, "10.0.0.1:7700 10.0.0.2:7700", ""},
		{Static{"10.0.0.9:1", "many:2", "six:3"}, "10.0.0.9:1 10.0.0.1:2 10.0.0.2:2 [fd00::1]:3", ""},
		{Static{"10.0.0.1:1", "many:1"}, "10.0.0.1:1 10.0.0.2:1", ""},
		{Static{"gone:1", "six:3"}, "[fd00::1]:3", ""},
		{Static{"gone:1"}, "", `coordinator "gone:1": no such host`},
		{Static{"many"}, "", `coordinator "many": want host:port`},
		{nil, "", "no coordinator address is given"},
	} {
		got, err := tc.list.resolved(t.Context(), names(known))
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%v: %v, want %s", tc.list, got, tc.want)
		}
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%v: error %v, want %q", tc.list, err, tc.err)
		}
	}
}

// TestStaticResolvesAgain: names are looked up each time, so changes are seen.
func TestStaticResolvesAgain(t *testing.T) {
	known := map[string][]string{"c": {"10.0.0.1"}}
	list := Static{"c:7"}
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		known["c"] = []string{ip}
		if got, err := list.resolved(t.Context(), names(known)); err != nil || len(got) != 1 || got[0] != ip+":7" {
			t.Errorf("%v, %v; want %s", got, err, ip)
		}
	}
}

func TestStaticUsesTheSystemsResolver(t *testing.T) {
	got, err := Static{"localhost:7700"}.Coordinators(t.Context())
	if err != nil || !slices.Contains(got, "127.0.0.1:7700") && !slices.Contains(got, "[::1]:7700") {
		t.Errorf("%v, %v", got, err)
	}
}
