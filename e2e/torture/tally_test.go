package torture

import (
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	tally := Tally{Lines: []Line{
		{Policy: "fail", Promised: true, Complete: true, Outcome: "done", Sent: 10, Kept: 10,
			Faults: map[string]int{"reset": 2}, Seconds: 1.4},
		{Policy: "fail", Outcome: "failed", Sent: 10, Kept: 7, Named: 3,
			Faults: map[string]int{"kill-agent": 1, "reset": 1}, Seconds: 1.6},
		{Policy: "fail", Messages: true, Promised: true, Sent: 5, Kept: 4, Lost: 1, Twice: 2,
			Wrong: []string{"a", "b", "c"}},
	}}
	got := tally.String()
	for _, want := range []string{
		"| fail | 2 | 1 of 1 | 1 | 1 | 3 | 0 | 0 | 0 |\n", "| fail, messages | 1 | 0 of 1 | 0 | 0 | 0 | 1 | 2 | 3 |\n",
		"| all | 3 | 1 of 2 | 1 | 1 | 3 | 1 | 2 | 3 |\n",
		"25 requests were sent, 21 are in results, in 3 s of runs. Faults that struck: 1 kill-agent, 3 reset.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
