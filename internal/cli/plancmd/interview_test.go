package plancmd

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/draft"
	"github.com/spate-load/spate/workload/content"
)

// answer runs an interview with the given answers, one per line.
func answer(t *testing.T, lines ...string) (*draftFlags, string, error) {
	t.Helper()
	var out bytes.Buffer
	f := &draftFlags{}
	i := &interview{answers: bufio.NewScanner(strings.NewReader(strings.Join(lines, "\n") + "\n")), out: &out, flags: f,
		toFile: true}
	err := i.hold()
	return f, out.String(), err
}

func TestInterviewTakesWhatIsUsual(t *testing.T) {
	t.Chdir(t.TempDir())
	f, asked, err := answer(t, "", "", "", "", "", "", "", "", "")
	if err != nil {
		t.Fatalf("%v\n%s", err, asked)
	}
	if f.out != "plan.yaml" || f.draft.Name != "my-plan" || f.draft.Workload != "random" || len(f.draft.Values) != 7 {
		t.Errorf("%+v", f)
	}
	if strings.Contains(asked, "Model name") || strings.Contains(asked, "API key") {
		t.Errorf("a simulator was asked for a model or a key:\n%s", asked)
	}
}

// TestInterviewAsksAgain: an invalid answer is reported at once, and the next answer counts.
func TestInterviewAsksAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("there.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, asked, err := answer(t,
		"no name!", "a",
		"nonsense", "http://127.0.0.1:1, http://127.0.0.1:2",
		"", "m",
		"soap", "completions",
		"sk-literal", "env:KEY",
		"tape", "mooncake",
		"", "trace.jsonl",
		"replay",
		"0", "-1", "many", "10",
		"there.yaml", "new.yaml",
	)
	if err != nil {
		t.Fatalf("%v\n%s", err, asked)
	}
	for _, want := range []string{
		"must be letters, digits", "must be a base URL", "a server needs it", "want one of chat, completions",
		"want one of random, sessions",
		"takes its requests from a file", "trace.jsonl is not there yet", `"-1": want numbers above 0`,
		`"many": want numbers above 0`,
		"there.yaml is there already",
	} {
		if !strings.Contains(asked, want) {
			t.Errorf("%q was not said:\n%s", want, asked)
		}
	}
	if strings.Contains(asked, "sk-literal") {
		t.Errorf("the key was shown:\n%s", asked)
	}
	text, err := f.draft.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plans.Load("new.yaml", text, plans.Options{}); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if f.out != "new.yaml" || f.draft.APIKey != "env:KEY" {
		t.Errorf("%+v", f)
	}
}

func TestInterviewRefusesWhatDoesNotGoTogether(t *testing.T) {
	t.Chdir(t.TempDir())
	f, asked, err := answer(t, "", "", "", "random", "", "", "replay", "search", "5,1", "5,10", "")
	if err != nil {
		t.Fatalf("%v\n%s", err, asked)
	}
	if !strings.Contains(asked, "has no times to replay") ||
		!strings.Contains(asked, "must be greater than from (5), got 1") || f.draft.Load != "search" {
		t.Errorf("%+v\n%s", f.draft, asked)
	}
}

func TestInterviewEnds(t *testing.T) {
	if _, _, err := answer(t, "a", ""); err == nil || !strings.Contains(err.Error(), "no plan was written") {
		t.Errorf("error %v", err)
	}
}

// TestAllDrafts: each workload with each load that goes with it makes a valid plan.
func TestAllDrafts(t *testing.T) {
	workloads, _ := draft.Workloads()
	loads, _ := draft.Loads()
	for _, w := range workloads {
		for _, l := range loads {
			d := draft.Answers{Workload: w, Load: l}
			if draft.NeedsFile(w) {
				d.File = filepath.Join("some", "rows")
			}
			err := draftMistakes(d, func(m plans.Mistake) string { return flagOf(m.Field) })
			trace := slices.Contains(content.Traces(), w)
			if (err == nil) != (l != "replay" || trace) {
				t.Errorf("%s with %s: %v", w, l, err)
			}
		}
	}
}
