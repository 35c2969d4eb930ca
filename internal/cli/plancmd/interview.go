package plancmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/draft"
)

// interview asks a person for a plan. It repeats a question until the answer is valid, so that each answer is valid
// when the next question comes.
type interview struct {
	answers *bufio.Scanner
	out     io.Writer
	flags   *draftFlags
	toFile  bool // ask for a file to write
}

// question is one question.
type question struct {
	text   string
	choice []string // empty: any answer
	help   []string // of the choices
	usual  string   // the default, for Enter
	take   func(answer string) error
	skip   bool
}

// hold asks all questions. It returns an error if the input ends.
func (i *interview) hold() error {
	fmt.Fprintln(i.out, "A few questions; Enter takes what stands in brackets.")
	for _, next := range i.questions() {
		if q := next(); !q.skip {
			if err := i.ask(q); err != nil {
				return err
			}
		}
	}
	return nil
}

// questions returns the questions in order. Some depend on earlier answers.
func (i *interview) questions() []func() question {
	d := &i.flags.draft
	workloads, workloadHelp := draft.Workloads()
	loads, loadHelp := draft.Loads()
	simulated := func() bool { return len(d.Endpoints) == 0 }
	needsFile := func() bool { return draft.NeedsFile(d.Workload) }
	noLengths := func() bool { return needsFile() && d.Workload != "sonnet" }
	return []func() question{
		func() question { return question{text: "Name of the plan", usual: "my-plan", take: into(&d.Name)} },
		func() question {
			return question{text: "Endpoints, as URLs with commas between them; none: the built-in simulator",
				take: func(a string) error {
					d.Endpoints = splitList(a)
					return nil
				}}
		},
		func() question { return question{text: "Model name", take: required(&d.Model), skip: simulated()} },
		func() question {
			return question{text: "API", choice: registry.Names(), usual: "chat", take: into(&d.API)}
		},
		func() question {
			return question{text: "API key, as env:NAME or file:PATH; none: no key", take: into(&d.APIKey),
				skip: simulated()}
		},
		func() question {
			return question{text: "Workload", choice: workloads, help: workloadHelp, usual: "random",
				take: into(&d.Workload)}
		},
		func() question { return question{text: "File of the workload", take: i.source, skip: !needsFile()} },
		func() question {
			return question{text: "Input length in tokens", usual: "1000", take: intoLength(&d.ISL), skip: noLengths()}
		},
		func() question {
			return question{text: "Output length in tokens", usual: "100", take: intoLength(&d.OSL),
				skip: noLengths() || !d.NeedsOSL()}
		},
		func() question {
			return question{text: "Load", choice: loads, help: loadHelp, usual: "concurrency", take: into(&d.Load)}
		},
		func() question {
			what, usual := draft.LoadValues(d.Load)
			return question{text: what, usual: usual, take: intoValues(&d.Values)}
		},
		func() question {
			return question{text: "File to write", usual: "plan.yaml", take: i.newFile, skip: !i.toFile}
		},
	}
}

// ask repeats a question until the answer is valid.
func (i *interview) ask(q question) error {
	if q.help != nil {
		fmt.Fprintln(i.out)
		for n, c := range q.help {
			fmt.Fprintf(i.out, "  %-12s %s\n", q.choice[n], c)
		}
	}
	for {
		fmt.Fprint(i.out, q.prompt())
		if !i.answers.Scan() {
			fmt.Fprintln(i.out)
			return errors.Join(errors.New("no plan was written: the answers ended"), i.answers.Err())
		}
		err := i.take(q, strings.TrimSpace(i.answers.Text()))
		if err == nil {
			return nil
		}
		fmt.Fprintf(i.out, "  %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
}

func (q question) prompt() string {
	text := q.text
	if q.help == nil && q.choice != nil {
		text += " (" + strings.Join(q.choice, ", ") + ")"
	}
	if q.usual != "" {
		text += " [" + q.usual + "]"
	}
	return text + ": "
}

// take accepts an answer if it makes a valid plan, with defaults for the rest.
func (i *interview) take(q question, answer string) error {
	if answer == "" {
		answer = q.usual
	}
	if q.choice != nil && !slices.Contains(q.choice, answer) {
		return fmt.Errorf("want one of %s", strings.Join(q.choice, ", "))
	}
	before := *i.flags
	if err := q.take(answer); err != nil {
		return err
	}
	d := i.flags.draft
	if draft.NeedsFile(d.Workload) && d.File == "" {
		d.File = "to be asked for"
	}
	if err := draftMistakes(d, func(plans.Mistake) string { return "" }); err != nil {
		*i.flags = before
		return err
	}
	return nil
}

// source sets the file of the workload. The file need not exist yet.
func (i *interview) source(answer string) error {
	if answer == "" {
		return errors.New("the workload takes its requests from a file")
	}
	if _, err := os.Stat(answer); err != nil {
		fmt.Fprintf(i.out, "  %s is not there yet; the plan needs it when it runs\n", answer)
	}
	i.flags.draft.File = answer
	return nil
}

// newFile sets the file to write.
func (i *interview) newFile(answer string) error {
	if _, err := os.Lstat(answer); err == nil {
		return fmt.Errorf("%s is there already: name another file", answer)
	}
	i.flags.out = answer
	return nil
}

func into(field *string) func(string) error {
	return func(answer string) error { *field = answer; return nil }
}

func required(field *string) func(string) error {
	return func(answer string) error {
		if *field = answer; answer == "" {
			return errors.New("a server needs it")
		}
		return nil
	}
}

func intoLength(field *uint32) func(string) error {
	return func(answer string) error {
		n, err := strconv.ParseUint(answer, 10, 24)
		if err != nil || n == 0 {
			return errors.New("want a whole number from 1 to 16777215")
		}
		*field = uint32(n)
		return nil
	}
}

func intoValues(field *[]float64) func(string) error {
	return func(answer string) error {
		*field = nil
		for _, part := range splitList(answer) {
			v, err := strconv.ParseFloat(part, 64)
			if err != nil || !(v > 0) {
				return fmt.Errorf("%q: want numbers above 0", part)
			}
			*field = append(*field, v)
		}
		return nil
	}
}

// splitList splits at commas and drops empty parts.
func splitList(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
