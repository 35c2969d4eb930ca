package plancmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/rules"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/dataset"
	"github.com/spate-load/spate/workload/rows"
	"github.com/spate-load/spate/workload/store"
	"github.com/spate-load/spate/workload/tokenizer"
)

// shippedPrefix starts the path of a file that ships with Spate.
const shippedPrefix = "shipped:"

// openFile opens a file of a plan. The caller closes it.
func openFile(ctx context.Context, path string) (io.ReadCloser, error) {
	if dataset, file, hub := splitHub(path); hub {
		return openHub(ctx, dataset, file)
	}
	if name, is := strings.CutPrefix(path, shippedPrefix); is {
		return plans.OpenData(name)
	}
	return files.Open(path)
}

// gatherer reads the files that a plan names.
type gatherer struct {
	plan       *plans.Plan
	store      *store.Store
	notes      io.Writer // for what a person should know about the files
	quiet      bool      // only problems
	largest    uint64    // most bytes of text that a file may have
	tokenizers map[string]*tokenizer.Tokenizer
	uncounted  error // why tokens of a text could not be counted
	mistakes   plans.Mistakes
	resources  plans.Resources
}

// Gather reads a plan's files: rows of workloads go into the store, tokenizers become words. The error lists all
// mistakes with their positions in the plan. The notes say what the files contain; quiet limits them to problems.
// Gather blocks until the files are read, or until a person interrupts it.
func Gather(ctx context.Context, plan *plans.Plan, dir string, notes io.Writer, quiet bool) (plans.Resources, error) {
	g := &gatherer{plan: plan, notes: notes, quiet: quiet, tokenizers: map[string]*tokenizer.Tokenizer{},
		resources: plans.Resources{
			Datasets: map[string]*spatev1.Dataset{}, Lexicons: map[string]*spatev1.Lexicon{},
		}}
	files := plan.Files()
	if len(files) == 0 {
		return g.resources, nil
	}
	var err error
	if g.largest, err = command.MaxDataset(); err != nil {
		return g.resources, command.BadInput(err)
	}
	if g.store, err = store.Open(dir); err != nil {
		return g.resources, err
	}
	err = command.UntilInterrupted(ctx, "reading the plan's files",
		func(ctx context.Context) error { return g.read(ctx, files) })
	if err != nil {
		return plans.Resources{}, err
	}
	if _, err := g.store.Prune(command.DatasetLimits, time.Now(), nil); err != nil {
		fmt.Fprintf(notes, "spate: unused datasets cannot be removed: %v\n", err)
	}
	return g.resources, nil
}

func (g *gatherer) read(ctx context.Context, files []plans.File) error {
	for _, f := range files {
		if f.Target != nil {
			g.tokenizer(f)
		}
	}
	for _, f := range files {
		if f.Workload != nil {
			g.rows(ctx, f)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if len(g.mistakes) > 0 {
		return g.mistakes
	}
	return nil
}

func (g *gatherer) wrong(f plans.File, err error) {
	text := strings.TrimPrefix(err.Error(), "dataset: ")
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(f.Path) {
		text += ": a relative path starts at the directory of the plan"
	}
	g.mistakes = append(g.mistakes, g.plan.Mistake(f.Field, text))
}

// tokenizer reads a tokenizer once and takes the words that are one token from it.
func (g *gatherer) tokenizer(f plans.File) {
	t := g.tokenizers[f.Path]
	if t == nil {
		var err error
		if t, err = tokenizer.Open(f.Path); err != nil {
			g.wrong(f, err)
			return
		}
		g.tokenizers[f.Path] = t
	}
	lexicon, err := t.Lexicon()
	if err != nil {
		g.wrong(f, err)
		return
	}
	g.resources.Lexicons[f.Target.GetName()] = lexicon
}

// count returns a function that counts a text's tokens by the plan's only tokenizer. With several or no tokenizers it
// returns nil, because the number is not defined.
func (g *gatherer) count() func(string) int {
	if len(g.tokenizers) != 1 {
		return nil
	}
	for _, t := range g.tokenizers {
		return func(text string) int {
			n, err := t.Count(text)
			g.uncounted = cmp.Or(g.uncounted, err)
			return n
		}
	}
	return nil
}

// inputs returns the files of a workload: its file, or those in its folder.
func (g *gatherer) inputs(ctx context.Context, f plans.File) ([]dataset.Input, error) {
	path := local(f.Path)
	paths := []string{path}
	if c := f.Workload.GetFile(); c != nil {
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			names, err := dataset.HuggingFaceFiles(os.DirFS(path), c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
			paths = lists.Each(names, func(name string) string { return filepath.Join(path, filepath.FromSlash(name)) })
		case c.GetSubset() != "" || c.GetSplit() != "":
			return nil, fmt.Errorf("%s is not a folder: only a folder has a subset and a split", f.Path)
		}
	}
	return lists.Each(paths, func(path string) dataset.Input {
		return dataset.Input{Name: path, Open: func() (io.ReadCloser, error) {
			src, err := openFile(ctx, path)
			return &reading{ctx, src}, err
		}}
	}), nil
}

// rows turns a workload's file into rows in the store.
func (g *gatherer) rows(ctx context.Context, f plans.File) {
	inputs, err := g.inputs(ctx, f)
	if err != nil {
		g.wrong(f, err)
		return
	}
	in, err := inputs[0].Open()
	if err != nil {
		g.wrong(f, err)
		return
	}
	var rows *spatev1.Dataset
	var left *dataset.Skipped
	_, err = g.store.Build(func(dst *os.File) (string, error) {
		d, skipped, err := dataset.Build(ctx, dst, in, f.Workload, dataset.Options{Name: inputs[0].Name,
			More: inputs[1:], Count: g.count(), MaxBytes: g.largest})
		if err != nil {
			return "", err
		}
		if g.uncounted != nil {
			return "", fmt.Errorf("%s: %w", f.Path, g.uncounted)
		}
		rows, left = d, skipped
		return d.GetSha256(), nil
	})
	if err = errors.Join(err, in.Close()); err != nil {
		g.wrong(f, err)
		return
	}
	g.resources.Datasets[f.Workload.GetName()] = rows
	g.fits(f, rows)
	g.tell(f, rows, left)
}

// fits finds targets that cannot be sent a file's rows: agents would refuse their part.
func (g *gatherer) fits(f plans.File, d *spatev1.Dataset) {
	path, found, err := g.store.Path(d.GetSha256(), d.GetSize())
	if err != nil || !found {
		return // the next reader of the rows reports why
	}
	opened, err := rows.Open(path)
	if err != nil {
		return
	}
	defer opened.Close()
	of := f.Workload
	if f.Mixture != nil {
		of = f.Mixture
	}
	for _, t := range g.plan.Targets() {
		if !rules.Meet(g.plan.Proto(), t, of) {
			continue
		}
		if err := workload.Writable(opened, formOf(t)); err != nil {
			g.wrong(f, fmt.Errorf("does not fit target %s: %s", t.GetName(),
				strings.TrimPrefix(err.Error(), "workload: ")))
		} else if problem := cmp.Or(fieldProblem(opened, t, f), textProblem(opened, t, f)); problem != "" {
			g.wrong(f, fmt.Errorf("does not fit target %s: %s", t.GetName(), problem))
		}
	}
}

// fieldProblem returns why the fields of rows cannot be sent to a target, or "".
func fieldProblem(opened *rows.File, t *spatev1.Target, f plans.File) string {
	a := defaults.API(t)
	others := []struct {
		where string
		has   map[string]any
	}{
		{"the target's body", t.GetBody().AsMap()}, {"the part's body", f.Part.GetBody().AsMap()},
		{"the workload", defaults.Asks(a, f.Workload)}, {"the mixture's workload", defaults.Asks(a, f.Mixture)},
	}
	for _, name := range rows.FieldNames {
		if !opened.HasField(name) {
			continue
		}
		if t.GetApi() != registry.Chat.Name {
			return fmt.Sprintf("its rows have %s, which only api: chat takes", name)
		}
		for _, other := range others {
			if _, given := other.has[name]; given {
				return fmt.Sprintf("its rows have %s, and so has %s: give one of them", name, other.where)
			}
		}
	}
	return ""
}

// textProblem returns why rows with several texts cannot be sent to a target, or "".
func textProblem(opened *rows.File, t *spatev1.Target, f plans.File) string {
	texts, documents := opened.Has(rows.Texts), opened.Has(rows.Documents)
	switch a := defaults.API(t); {
	case (texts || documents) && !a.NoOutput:
		return "its rows have several texts, which only embeddings, rerank and score take"
	case documents && !a.Cuts:
		return "its rows have a query and documents, which only rerank and score take"
	case (texts || documents || opened.Has(rows.Session)) && content.File(f.Workload).GetTexts() > 0:
		return "a request takes several rows (texts), and these have several texts themselves: leave texts out"
	}
	return ""
}

// formOf returns the form in which a target takes prompts.
func formOf(t *spatev1.Target) workload.Form {
	switch t.GetPrompts() {
	case "":
		return workload.Messages
	case "token_ids":
		return workload.TokenIDs
	}
	return workload.Text
}

// tell says what a file contains. Files that ship with Spate need no note.
func (g *gatherer) tell(f plans.File, d *spatev1.Dataset, skipped *dataset.Skipped) {
	if strings.HasPrefix(f.Path, shippedPrefix) || g.quiet && skipped.Unusable == 0 {
		return
	}
	kind := "row"
	if content.PlaysSessions(f.Workload) {
		kind = "session"
	}
	fmt.Fprintf(g.notes, "%s: %s of %s", f.Workload.GetName(), words.Count(d.GetRows(), kind), f.Path)
	if d.GetSpan() != nil {
		fmt.Fprintf(g.notes, ", over %s", d.GetSpan().AsDuration().Round(time.Millisecond))
	}
	if skipped.Seconds {
		fmt.Fprint(g.notes, "; its timestamps are seconds, by their numbers")
	}
	if n := skipped.Unusable; n > 0 {
		fmt.Fprintf(g.notes, "; %s dropped as unusable: %s", words.Count(n, "row"), skipped)
	}
	if n := skipped.Excluded; n > 0 {
		fmt.Fprintf(g.notes, "; %s left out: empty, failed, or without what a request needs", words.Count(n, "row"))
	}
	if n := skipped.Reordered; n > 0 {
		fmt.Fprintf(g.notes, "; %s sorted by time", words.Count(n, "row"))
	}
	if words := skipped.Unused.String(); words != "" {
		fmt.Fprintf(g.notes, "; not used: %s", words)
	}
	fmt.Fprintln(g.notes)
}

// WithRows expands a plan with the contents of its files. The addresses of simulators are placeholders. The error lists
// the loads that do not fit what the files contain, such as a replay of more rows than there are.
func WithRows(plan *plans.Plan, resources plans.Resources) ([]*spatev1.Stage, error) {
	resources.Endpoints = map[string][]string{}
	for _, t := range plan.Simulated() {
		resources.Endpoints[t.GetName()] = []string{"http://127.0.0.1"}
	}
	return plan.Stages(resources)
}
