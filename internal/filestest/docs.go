// Package docpart keeps the parts of documentation pages that tests generate: what stands between <!-- NAME --> and
// <!-- end of NAME -->, each on a line of its own.
package docpart

import (
	"os"
	"strings"
	"testing"
)

// Check fails the test unless the parts of a page, by name, have these texts. If update is set, it writes them instead.
// command is what a person runs to do so.
func Check(t *testing.T, page string, parts map[string]string, update bool, command string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, part := range parts {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, begins := strings.Cut(want, begin)
		_, after, ends := strings.Cut(rest, end)
		if !begins || !ends {
			t.Fatalf("%s has no part between %q and %q", page, begin, end)
		}
		want = before + begin + part + end + after
	}
	if update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is not what the program says: %s", page, command)
	}
}
