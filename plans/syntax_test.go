package plans

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestEverySyntaxMistakeHasAPlace: whatever breaks a plan's YAML, and wherever, the mistake has a line and a column.
func TestEverySyntaxMistakeHasAPlace(t *testing.T) {
	whole, err := os.ReadFile("quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(whole)-1).Draw(t, "at")
		left := at + rapid.IntRange(0, 3).Draw(t, "left out")
		odd := rapid.SampledFrom(strings.Split("[ ] { } : \t \" ' * & ! | > @ % ` , # - ? \n é", " ")).Draw(t, "put in")
		data := string(whole[:at]) + odd + string(whole[min(left, len(whole)):])
		_, err := parseDocument("plan.yaml", []byte(data))
		var found Mistakes
		if errors.As(err, &found) && (found[0].Line == 0 || found[0].Column == 0) {
			t.Errorf("no place: %v", err)
		}
	})
}

// TestSyntaxMistakeIsWhereItIs: the position is that of the mistake, not of the block around it.
func TestSyntaxMistakeIsWhereItIs(t *testing.T) {
	for text, want := range map[string]string{
		"name: @x\n": "1:7", "name: *nobody\n": "1:7", "name: \"abc\nseed: 1\n": "1:7", "a: [1, 2\nb: 3\n": "1:4",
		"a: ]\n":          "1:4",
		"a: 1\nb: c: d\n": "2:5", "a:\n  - b\n c: 1\n": "3:2", "é: \"ü\" y\n": "1:8", "a: 1\n\tb: 2\n": "2:1",
		"a:\n  b: 1\n  \tc: 2\n": "3:3",
	} {
		_, err := parseDocument("p", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "p:"+want+": ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestAHugeBrokenPlanIsGivenUp(t *testing.T) {
	text := "a: \"" + strings.Repeat("\n  b: 1", 1<<15)
	if _, err := parseDocument("p", []byte(text)); err == nil ||
		!strings.HasPrefix(err.Error(), "p:32769: not readable as YAML: ") {
		t.Error(err)
	}
}

var pathOfMistake = regexp.MustCompile(`(?m)^plan\.yaml:[0-9:]+: ([a-z_]+(?:\[[^\]]*\])*(?:\.[a-z_]+(?:\[[^\]]*\])*)*): `)

// TestMistakesNameFieldsOfPlans: a message names fields as people write them; "workloads[0].content" is not one.
func TestMistakesNameFieldsOfPlans(t *testing.T) {
	goldens, err := os.ReadFile(mistakesFile)
	if err != nil {
		t.Fatal(err)
	}
	index, seen := regexp.MustCompile(`\[[^\]]*\]`), 0
	for _, match := range pathOfMistake.FindAllStringSubmatch(string(goldens), -1) {
		seen++
		message := (&spatev1.Plan{}).ProtoReflect().Descriptor()
		for name := range strings.SplitSeq(index.ReplaceAllString(match[1], ""), ".") {
			field := message.Fields().ByTextName(name)
			if field == nil {
				t.Errorf("%s: a plan has no field %q", match[1], name)
				break
			}
			if message = field.Message(); message == nil || message.FullName() == "google.protobuf.Value" ||
				field.IsMap() {
				break
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d mistakes name a field", seen)
	}
}
