package document

import (
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestEverySyntaxMistakeHasAPlace: whatever breaks a plan's YAML, and wherever, the mistake has a line and a column.
func TestEverySyntaxMistakeHasAPlace(t *testing.T) {
	whole, err := os.ReadFile("../quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(whole)-1).Draw(t, "at")
		left := at + rapid.IntRange(0, 3).Draw(t, "left out")
		odd := rapid.SampledFrom(strings.Split("[ ] { } : \t \" ' * & ! | > @ % ` , # - ? \n é", " ")).Draw(t, "put in")
		data := string(whole[:at]) + odd + string(whole[min(left, len(whole)):])
		_, err := parse("plan.yaml", []byte(data))
		var found Mistakes
		if errors.As(err, &found) && (found[0].Line == 0 || found[0].Column == 0) {
			t.Errorf("no place: %v", err)
		}
	})
}

// TestSyntaxMistakeIsWhereItIs: the position is that of the mistake, not of the block around it.
func TestSyntaxMistakeIsWhereItIs(t *testing.T) {
	for text, want := range map[string]string{
		"name: @x\n": "1:7", "name: *unknown\n": "1:7", "name: \"abc\nseed: 1\n": "1:7", "a: [1, 2\nb: 3\n": "1:4",
		"a: ]\n":          "1:4",
		"a: 1\nb: c: d\n": "2:5", "a:\n  - b\n c: 1\n": "3:2", "é: \"ü\" y\n": "1:8", "a: 1\n\tb: 2\n": "2:1",
		"a:\n  b: 1\n  \tc: 2\n": "3:3",
	} {
		_, err := parse("p", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "p:"+want+": ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestAHugeBrokenPlanIsRefused(t *testing.T) {
	text := "a: \"" + strings.Repeat("\n  b: 1", 1<<15)
	if _, err := parse("p", []byte(text)); err == nil ||
		!strings.HasPrefix(err.Error(), "p:32769: not readable as YAML: ") {
		t.Error(err)
	}
}
