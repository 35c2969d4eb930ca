// Package ci writes what CI systems read of a run: a JUnit file and GitHub's annotations. Nothing depends on a clock or
// the environment: the same result gives the same bytes.
package ci

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
)

// suites is the root of a JUnit file.
type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Suites   []suite  `xml:"testsuite"`
}

type suite struct {
	Name      string     `xml:"name,attr"`
	Tests     int        `xml:"tests,attr"`
	Failures  int        `xml:"failures,attr"`
	Errors    int        `xml:"errors,attr"`
	Skipped   int        `xml:"skipped,attr"`
	Timestamp string     `xml:"timestamp,attr,omitempty"`
	Cases     []testCase `xml:"testcase"`
}

type testCase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Time    string   `xml:"time,attr,omitempty"`
	Failure *failure `xml:"failure"`
	Output  string   `xml:"system-out,omitempty"`
}

type failure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// Baseline is how a run compares with its baseline.
type Baseline struct {
	// Answer is that of the comparison, in lines.
	Answer []string
	// Fails says why the run does not pass the comparison. Empty: it passes, or the comparison does not count.
	Fails string
	// Stages that were compared.
	Stages []BaselineStage
	// NotCompared are the other stages, each with the reason.
	NotCompared []string
}

// BaselineStage is how a stage compares with that of the baseline.
type BaselineStage struct {
	// Name of the stage.
	Name string
	// Worse has the numbers that are worse than the baseline's, in words.
	Worse []string
}

// JUnit writes a test case for each threshold and stage, one for the trust in each stage, and one for the run. A stage
// fails if it is incomplete or fails reports true for its verdict; of other stages the reasons for their verdict are in
// the output of the case. With a baseline, which may be nil, there is a case for the comparison and for each of its
// stages.
func JUnit(w io.Writer, r *results.Result, base *Baseline, fails func(trust.Verdict) bool) error {
	root := suites{Name: r.Run.ID, Suites: []suite{trustSuite(r, fails)}}
	if len(r.Thresholds) > 0 {
		root.Suites = append(root.Suites, thresholdSuite(r))
	}
	if base != nil {
		root.Suites = append(root.Suites, baselineSuite(base))
	}
	for s := range lists.Refs(root.Suites) {
		s.Tests = len(s.Cases)
		if r.Run.BeginTime != nil {
			s.Timestamp, _, _ = strings.Cut(*r.Run.BeginTime, ".") // whole seconds, as in JUnit's schema
			s.Timestamp = strings.TrimSuffix(s.Timestamp, "Z")
		}
		s.Failures = lists.Count(s.Cases, func(c testCase) bool { return c.Failure != nil })
		root.Tests, root.Failures = root.Tests+s.Tests, root.Failures+s.Failures
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(root); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// trustSuite has a case for the run and for each stage.
func trustSuite(r *results.Result, fails func(trust.Verdict) bool) suite {
	s := suite{Name: "trust", Cases: []testCase{{Class: "run", Name: "complete",
		Output: strings.Join(r.Headline.Lines(), "\n")}}}
	if !r.Run.Complete {
		s.Cases[0].Failure = failed("incomplete", "the run is incomplete", r.Run.Missing)
	}
	for stage := range lists.Refs(r.Stages) {
		c := testCase{Class: "trust", Name: stageName(stage.Index, stage.Target, stage.Workload, stage.Load.Words),
			Time: seconds(stage)}
		switch reasons := stage.Trust.Reasons(); {
		case !stage.Complete:
			c.Failure = failed("incomplete", "the stage is incomplete", stage.Missing)
		case fails(stage.Trust.Verdict):
			c.Failure = failed(string(stage.Trust.Verdict), "the stage is "+string(stage.Trust.Verdict), reasons)
		case len(reasons) > 0:
			c.Output = string(stage.Trust.Verdict) + ": " + strings.Join(reasons, "\n")
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}

// thresholdSuite has a case for each threshold and stage. A threshold that was not compared with any stage is one case.
func thresholdSuite(r *results.Result) suite {
	s := suite{Name: "thresholds"}
	for _, t := range r.Thresholds {
		if t.Reason != nil {
			s.Cases = append(s.Cases, testCase{Class: t.Words(), Name: "no stage",
				Failure: failed("threshold", t.Words()+": "+*t.Reason, nil)})
		}
		for _, stage := range t.Stages {
			c := testCase{Class: t.Words(), Name: stageName(stage.Index, stage.Target, stage.Workload, stage.Load),
				Output: stage.Words}
			if !stage.Passed {
				c.Failure, c.Output = failed("threshold", t.Words()+": "+stage.Words, nil), ""
			}
			s.Cases = append(s.Cases, c)
		}
	}
	return s
}

// baselineSuite has a case for the comparison with the baseline and for each of its stages.
func baselineSuite(base *Baseline) suite {
	s := suite{Name: "baseline", Cases: []testCase{{Class: "baseline", Name: "comparison"}}}
	if base.Fails != "" {
		s.Cases[0].Failure = failed("baseline", base.Fails, base.NotCompared)
	} else {
		s.Cases[0].Output = strings.Join(base.NotCompared, "\n")
	}
	s.Cases[0].Output = strings.TrimSpace(strings.Join(base.Answer, "\n") + "\n" + s.Cases[0].Output)
	for _, stage := range base.Stages {
		c := testCase{Class: "baseline", Name: stage.Name}
		switch {
		case len(stage.Worse) == 0:
		case base.Fails != "":
			c.Failure = failed("worse", "worse than the baseline", stage.Worse)
		default:
			c.Output = strings.Join(stage.Worse, "\n")
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}

func failed(kind, message string, reasons []string) *failure {
	return &failure{kind, message, strings.Join(reasons, "\n")}
}

// stageName names a stage as reports do. People count stages from 1.
func stageName(index uint32, target, workload, load string) string {
	return fmt.Sprintf("%d: %s, %s, %s", index+1, target, workload, load)
}

// seconds returns the duration of a stage, or "" if it is not known.
func seconds(s *results.StageResult) string {
	if s.DurationS == nil {
		return ""
	}
	return fmt.Sprintf("%.3f", *s.DurationS)
}

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
	for s := range lists.Refs(r.Stages) {
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
