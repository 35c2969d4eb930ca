package plancmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A list names images by path, relative to its folder, or by URL; a message about a file has its line.
func TestListedImages(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "list.txt")
	for text, want := range map[string][]string{
		"a.png\n\n /b.png \nhttps://h/c.png\ndata:image/png;base64,AA": {
			list + ":1: " + dir + "/a.png", list + ":3: /b.png", "https://h/c.png", "data:image/png;base64,AA",
		},
		"\n\n": nil,
	} {
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		inputs, err := imagesAt(list)
		var got []string
		for _, in := range inputs {
			got = append(got, in.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%q: %v (-want +got)\n%s", text, err, diff)
		}
	}
}
