package words

import (
	"os"
	"strings"
	"testing"
)

func TestDocURL(t *testing.T) {
	if got := DocURL("a.md", "b_c"); got != site+"a.md#b_c" {
		t.Error(got)
	}
	if got := DocURL("a.md", ""); got != site+"a.md" {
		t.Error(got)
	}
}

// Addresses become links, and nothing else of a text becomes markup.
func TestLinked(t *testing.T) {
	got := Linked("<b> " + DocURL("a.md", `"x`) + " & " + DocURL("c.md", ""))
	want := `&lt;b&gt; <a href="` + site + `a.md#&#34;x">a.md#&#34;x</a> &amp; <a href="` + site + `c.md">c.md</a>`
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The site is the folder docs of the repository that the site of docs names.
func TestDocSite(t *testing.T) {
	settings, err := os.ReadFile("../../mkdocs.yml")
	repository := strings.TrimSuffix(site, "/blob/main/docs/")
	if err != nil || !strings.Contains(string(settings), "repo_url: "+repository+"\n") {
		t.Error(repository, err)
	}
}
