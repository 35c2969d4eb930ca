package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/spate-load/spate/plans"
)

// run writes a plan.
func (f *draftFlags) run(cmd *cobra.Command, _ []string) error {
	if f.asks(cmd) {
		if err := f.interview(cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
			return badInput(err)
		}
	}
	d := f.draft
	if err := checkDraft(d); err != nil {
		return badInput(err)
	}
	text, err := d.YAML()
	if err != nil {
		return badInput(err)
	}
	if _, err := plans.Load("the new plan", text, plans.Options{}); err != nil {
		return badInput(err)
	}
	if f.out == "" {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	return f.save(cmd, text)
}

// save writes the plan to its file, which must not be there yet.
func (f *draftFlags) save(cmd *cobra.Command, text []byte) error {
	file, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return badInputf("--out %s: the file is there already: name another one", f.out)
	}
	if err != nil {
		return badInputf("--out: %w", err)
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s is written. Next: spate plan show %s, spate run %s --simulate, spate run %s\n", f.out, f.out, f.out, f.out)
	return nil
}

// asks says whether questions are to be asked: on a terminal, if no flag says anything.
func (f *draftFlags) asks(cmd *cobra.Command) bool {
	file, ok := cmd.InOrStdin().(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && cmd.Flags().NFlag() == 0
}

// checkDraft finds what the plan's own rules would say in words that a person who has no plan yet cannot know.
func checkDraft(d plans.Draft) error {
	needs := plans.DraftNeedsFile(d.Workload)
	switch {
	case needs && d.File == "":
		return fmt.Errorf("the workload %s takes its requests from a file: give --file", d.Workload)
	case !needs && d.File != "":
		return errors.New("--file goes with a workload that takes its requests from a file: give --workload, too")
	}
	return nil
}

// question is one thing to ask for.
type question struct {
	text   string
	choice []string // empty: any answer
	help   []string // of the choices
	usual  string   // what Enter takes
	take   func(answer string) error
	skip   func() bool
}

// interview asks for the plan. An answer that cannot be is asked for again; the end of the input is an error.
func (f *draftFlags) interview(in io.Reader, out io.Writer) error {
	answers := bufio.NewScanner(in)
	for _, q := range f.questions() {
		if q.skip != nil && q.skip() {
			continue
		}
		if err := q.ask(answers, out); err != nil {
			return err
		}
	}
	return nil
}

// questions are what is asked for, in order.
func (f *draftFlags) questions() []question {
	d := &f.draft
	workloads, workloadHelp := plans.DraftWorkloads()
	loads, loadHelp := plans.DraftLoads()
	simulated := func() bool { return len(d.Endpoints) == 0 }
	return []question{
		{text: "Name of the plan", usual: "my-plan", take: into(&d.Name)},
		{text: "Endpoints, as URLs with commas between them; none: the built-in simulator", take: func(a string) error {
			d.Endpoints = splitList(a)
			return nil
		}},
		{text: "Model name", usual: "your-model", take: into(&d.Model), skip: simulated},
		{text: "API", choice: []string{"chat", "completions"}, usual: "chat", take: into(&d.API)},
		{text: "API key, as env:NAME or file:PATH; none: no key", take: into(&d.APIKey), skip: simulated},
		{text: "Workload", choice: workloads, help: workloadHelp, usual: "random", take: into(&d.Workload)},
		{text: "File of the workload", take: required(&d.File), skip: func() bool { return !plans.DraftNeedsFile(d.Workload) }},
		{text: "Input length in tokens", usual: "1000", take: intoLength(&d.ISL), skip: func() bool { return plans.DraftNeedsFile(d.Workload) && d.Workload != "sonnet" }},
		{text: "Output length in tokens", usual: "100", take: intoLength(&d.OSL), skip: func() bool { return plans.DraftNeedsFile(d.Workload) && d.Workload != "sonnet" }},
		{text: "Load", choice: loads, help: loadHelp, usual: "concurrency", take: into(&d.Load)},
		{text: "Its values, with commas between them; none: what is usual", take: intoValues(&d.Values)},
		{text: "File to write", usual: "plan.yaml", take: into(&f.out)},
	}
}

// ask asks until the answer can be.
func (q *question) ask(answers *bufio.Scanner, out io.Writer) error {
	for i, c := range q.help {
		fmt.Fprintf(out, "  %-12s %s\n", q.choice[i], c)
	}
	for {
		fmt.Fprint(out, q.text)
		if q.help == nil && q.choice != nil {
			fmt.Fprintf(out, " (%s)", strings.Join(q.choice, ", "))
		}
		if q.usual != "" {
			fmt.Fprintf(out, " [%s]", q.usual)
		}
		fmt.Fprint(out, ": ")
		if !answers.Scan() {
			return errors.Join(errors.New("no plan was written: the answers ended"), answers.Err())
		}
		answer := strings.TrimSpace(answers.Text())
		if answer == "" {
			answer = q.usual
		}
		err := q.take(answer)
		if q.choice != nil && !slices.Contains(q.choice, answer) {
			err = fmt.Errorf("want one of %s", strings.Join(q.choice, ", "))
		}
		if err == nil {
			return nil
		}
		fmt.Fprintf(out, "  %v\n", err)
	}
}

func into(field *string) func(string) error {
	return func(answer string) error { *field = answer; return nil }
}

func required(field *string) func(string) error {
	return func(answer string) error {
		if *field = answer; answer == "" {
			return errors.New("it is needed")
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

// splitList splits at commas and leaves out what is empty.
func splitList(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
