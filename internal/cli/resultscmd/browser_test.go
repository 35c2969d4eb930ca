package resultscmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A browser is given a page, the window and where to write; what it says is in the error if it writes nothing. Without
// a browser the error says what to do.
func TestDrawn(t *testing.T) {
	browser := filepath.Join(t.TempDir(), "browser")
	put := func(script string) {
		if err := os.WriteFile(browser, []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	put(`for of; do case $of in --screenshot=*) to=${of#*=};; file://*) from=${of#file://};; esac; done
(echo "$@"; cat "${from%#card}") >"$to"`)
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("the browser is a shell script")
	}
	f := figureFlags{Browser: browser, Format: "png"}
	for figure, wants := range map[string][]string{
		"<p>page": {"--window-size=1200,630", "--force-device-scale-factor=1", "#card", "<p>page"},
		`<svg x="" width="317px" height="300px">`: {"--window-size=317,300", "--force-device-scale-factor=3", "size:317px 300px", "<svg x"},
	} {
		out, err := f.drawn(t.Context(), []byte(figure))
		for _, want := range wants {
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%v, no %s in %s", err, want, out)
			}
		}
	}
	put("echo no display; exit 3")
	f.Format = "pdf"
	if _, err := f.drawn(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no display") {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir())
	f.Browser = ""
	if _, err := f.drawn(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "--browser") {
		t.Error(err)
	}
}
