package ci

import (
	"fmt"
	"io"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
)

// mostAnnotations is the most that GitHub shows of one step and kind.
const mostAnnotations = 10

// Annotations writes GitHub's workflow commands: an error for each threshold that failed, for a failed comparison with
// the baseline, which may be nil, and for each stage that is worse than there, incomplete, or whose verdict fails; at
// most as many as GitHub shows.
func Annotations(w io.Writer, r *results.Result, base *Baseline, fails func(trust.Verdict) bool) error {
	var lines []string
	add := func(title, text string) {
		lines = append(lines, fmt.Sprintf("::error title=%s::%s\n", property.Replace(title), message.Replace(text)))
	}
	for _, t := range r.Thresholds {
		if t.Reason != nil {
			add("Threshold failed", t.Words()+": "+*t.Reason)
		}
		for _, s := range t.Stages {
			if !s.Passed {
				add("Threshold failed", t.Words()+": stage "+stageName(s.Index, s.Target, s.Workload, s.Load)+": "+s.Words)
				break // the tables have the others
			}
		}
	}
	if base != nil && base.Fails != "" {
		add("Comparison failed", strings.Join(append([]string{base.Fails}, base.NotCompared...), "\n"))
		for _, s := range base.Stages {
			if len(s.Worse) > 0 {
				add("Worse than the baseline", s.Name+": "+strings.Join(s.Worse, "; "))
			}
		}
	}
	for i := range r.Stages {
		s := &r.Stages[i]
		name := stageName(s.Index, s.Target, s.Workload, s.Load.Words)
		switch {
		case !s.Complete:
			add("Stage incomplete", name+": "+strings.Join(s.Missing, "; "))
		case fails(s.Trust.Verdict):
			add("Stage "+string(s.Trust.Verdict), name+": "+strings.Join(s.Trust.Reasons(), "; "))
		}
	}
	_, err := io.WriteString(w, strings.Join(lines[:min(len(lines), mostAnnotations)], ""))
	return err
}

// Escapes of workflow commands, in messages and in properties.
var (
	message  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
