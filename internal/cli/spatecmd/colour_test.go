package spatecmd

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

var escape = regexp.MustCompile(`\x1b\[\d+m`)

// Colours change no character and no width. Without a terminal there are no colours.
func TestColoursChangeNoText(t *testing.T) {
	shown := func(colours palette) string {
		var out bytes.Buffer
		p := &progress{w: &out, terminal: true, width: func() int { return 100 }, colours: colours}
		for _, e := range events() {
			p.show(e)
		}
		return out.String()
	}
	coloured, plain := shown(true), shown(false)
	if got := escape.ReplaceAllString(coloured, ""); got != plain {
		t.Errorf("%q\n%q", got, plain)
	}
	for _, want := range []string{"\x1b[31m2 failed\x1b[0m", "\x1b[31m✗ \x1b[0m", "\x1b[33m! \x1b[0m", "\x1b[36m█"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("no %q in %q", want, coloured)
		}
	}
	if escape.MatchString(plain) || bool(paletteOf(&bytes.Buffer{})) {
		t.Error("colours without a terminal")
	}
}

func TestStateIsColouredByHowBadItIs(t *testing.T) {
	for state, colour := range map[string]string{
		"done": green, "done, VALID": green, "done, SUSPECT": yellow, "done, INVALID": red, "failed": red,
		"failed, VALID":   red,
		"failed, SUSPECT": red, "incomplete, VALID": red, "stopped, VALID": yellow, "broken": red,
	} {
		if got, want := palette(true).state(state), "\x1b["+colour+"m"+state+"\x1b[0m"; got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}
