package fleet

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	takesRuns = spatev1.Cordon_CORDON_UNSPECIFIED
	cordoned  = spatev1.Cordon_CORDON_CORDONED
	drained   = spatev1.Cordon_CORDON_DRAINED
)

// What was said of agents is there again after a restart.
func TestCordonsStay(t *testing.T) {
	dir := t.TempDir()
	var c Cordons
	if err := c.Load(dir); err != nil || len(c.All()) > 0 {
		t.Fatalf("%v %v", err, c.All())
	}
	for _, s := range []struct {
		names []string
		to    spatev1.Cordon
	}{
		{[]string{"a", "b"}, cordoned}, {[]string{"b", "c"}, drained},
		{[]string{"a"}, takesRuns},
	} {
		if err := c.Set(s.names, s.to); err != nil {
			t.Fatal(err)
		}
	}
	var again Cordons
	if err := again.Load(dir); err != nil {
		t.Fatal(err)
	}
	if want := map[string]spatev1.Cordon{"b": drained, "c": drained}; !maps.Equal(again.All(), want) ||
		again.Of("a") != takesRuns || again.Of("c") != drained {
		t.Errorf("%v, want %v", again.All(), want)
	}
}

// A file that cannot be read is an error: an agent whose machine is being repaired must not take a run by accident.
func TestBrokenFile(t *testing.T) {
	for text, want := range map[string]string{
		"{": "correct or remove it", `{"a": "asleep"}`: `agent a is "asleep", want cordoned or drained`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "cordons.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := new(Cordons).Load(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A change that cannot be written changes nothing.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	var c Cordons
	if err := c.Load(filepath.Join(dir, "missing")); err != nil {
		t.Fatal(err)
	}
	if err := c.Set([]string{"a"}, cordoned); err == nil || c.Of("a") != takesRuns {
		t.Errorf("%v, and a is %v", err, c.Of("a"))
	}
}
