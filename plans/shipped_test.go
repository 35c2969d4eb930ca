package plans

import (
	"errors"
	"io/fs"
	"testing"
	"time"
)

// TestShippedPlansAreRight loads every plan that ships with the program.
func TestShippedPlansAreRight(t *testing.T) {
	names := Shipped()
	if len(names) == 0 {
		t.Fatal("no plan is shipped")
	}
	for _, name := range names {
		data, err := Open(name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if p := load(t, string(data)); p.Name() != name {
			t.Errorf("%s.yaml is named %q", name, p.Name())
		}
	}
}

// TestQuickstartIsShort: the demo has 90 s in total.
func TestQuickstartIsShort(t *testing.T) {
	data, err := Open("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	stages, err := load(t, string(data)).Stages(Resources{Endpoints: map[string][]string{"simulated": {"http://a",
		"http://b"}}})
	if err != nil || len(stages) != 14 {
		t.Fatalf("%d stages, %v", len(stages), err)
	}
	var total time.Duration
	for _, s := range stages {
		d, known := ExpectedDuration(s)
		if !known {
			t.Fatalf("stage %d has no known length", s.GetIndex())
		}
		const overhead = 500 * time.Millisecond
		total += d + overhead
	}
	if total > 60*time.Second {
		t.Errorf("takes %v without drains", total)
	}
}

func TestOpenUnknown(t *testing.T) {
	for _, name := range []string{"nothing", "../plans/quickstart", ""} {
		if _, err := Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
