package runcmd

import "testing"

// A coordinator chooses names of runs, and its clients write to directories with these names.
func TestNamesOfRunsAreNoPaths(t *testing.T) {
	for name, fits := range map[string]bool{
		"sweep-20261123T053520Z-1ea906": true, "a.b_c-1": true,
		"": false, ".": false, "..": false, "../../etc/x": false, "/etc/x": false, `a\b`: false, "a/b": false,
		"a\n": false, "-rf": false,
	} {
		if runName.MatchString(name) != fits {
			t.Errorf("%q: %v", name, !fits)
		}
	}
}
