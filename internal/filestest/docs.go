package filestest

import (
	"os"
	"strings"
	"testing"
)

// CheckDoc fails the test unless the parts of a documentation page, by name, have these texts. A part stands between
// <!-- NAME --> and <!-- end of NAME -->, each on a line of its own. If update is set, CheckDoc writes the parts
// instead. command is what a person runs to do so.
func CheckDoc(t *testing.T, page string, parts map[string]string, update bool, command string) {
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
