package docs

import (
	"os"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	if got := URL("a.md", "b_c"); got != site+"a.md#b_c" {
		t.Error(got)
	}
	if got := URL("a.md", ""); got != site+"a.md" {
		t.Error(got)
	}
}

// Addresses become links, and nothing else of a text becomes markup.
func TestLinked(t *testing.T) {
	got := Linked("<b> " + URL("a.md", `"x`) + " & " + URL("c.md", ""))
	want := `&lt;b&gt; <a href="` + site + `a.md#&#34;x">a.md#&#34;x</a> &amp; <a href="` + site + `c.md">c.md</a>`
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The site is the folder docs of the repository that the site of docs names.
func TestSite(t *testing.T) {
	settings, err := os.ReadFile("../../mkdocs.yml")
	repository := strings.TrimSuffix(site, "/blob/main/docs/")
	if err != nil || !strings.Contains(string(settings), "repo_url: "+repository+"\n") {
		t.Error(repository, err)
	}
}
