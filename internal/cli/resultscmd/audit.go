package resultscmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/audit"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// auditFlags are the flags of `spate audit`.
type auditFlags struct {
	Format string `flag:"format" default:"text" oneof:"text, markdown, json" help:"format: text, markdown, json"`
}

// auditMost is the largest file that is audited: GuideLLM's have every request.
const auditMost = 1 << 30

// NewAudit makes `spate audit`.
func NewAudit() *cobra.Command {
	f := &auditFlags{}
	return manual.New("audit", cobra.MinimumNArgs(1), f.run, f)
}

// audited is a file with what was found.
type audited struct {
	File string `json:"file"`
	*audit.Report
}

func (f *auditFlags) run(cmd *cobra.Command, args []string) error {
	var all []audited
	contradicted, rows := 0, 0
	for _, path := range args {
		data, err := auditInput(cmd.InOrStdin(), path)
		if err != nil {
			return command.BadInput(err)
		}
		report, err := audit.File(data)
		if err != nil {
			return command.BadInput(fmt.Errorf("%s: %w", path, err))
		}
		all = append(all, audited{path, report})
		contradicted, rows = contradicted+report.Contradicted, rows+report.Rows
	}
	out := cmd.OutOrStdout()
	if f.Format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(all); err != nil {
			return err
		}
	} else if err := writeAudits(out, all, f.Format); err != nil {
		return err
	}
	if contradicted > 0 {
		return command.Exit(command.ExitFailed, errors.New(words.Count(uint64(rows), "row")+
			fmt.Sprintf(", %d with numbers that cannot be true together", contradicted)))
	}
	return nil
}

// auditInput reads a file, the results of a run directory, or standard input.
func auditInput(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(stdin, auditMost))
	}
	path = runfiles.Named(path)
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		path = filepath.Join(path, "results.json")
	}
	return files.ReadFile(path, auditMost)
}

// writeAudits writes what was found for people, as text or Markdown.
func writeAudits(out io.Writer, all []audited, format string) error {
	for i, a := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s: %s\n", a.File, a.sentence())
		if len(a.Findings) > 0 {
			fmt.Fprintln(out)
			if err := a.table().In(format, out, terminal.Width(out)); err != nil {
				return err
			}
		}
		if len(a.Unchecked) > 0 {
			fmt.Fprintf(out, "\nNot checked, as numbers for it are missing: %s.\n", strings.Join(a.Unchecked, "; "))
		}
	}
	return nil
}

// sentence says what was found.
func (a *audited) sentence() string {
	parts := []string{words.Count(uint64(a.Rows), "row") + " of " + a.What}
	for _, of := range []struct {
		n    int
		what string
	}{{a.Contradicted, "cannot be true"}, {a.Doubtful, "doubtful"}, {a.Copies, "with the numbers of another row"},
		{a.Holds(), "without a contradiction"}} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprint(of.n, " ", of.what))
		}
	}
	return strings.Join(parts, ", ")
}

// table has the findings, each row of the file once.
func (a *audited) table() *table.Table {
	t := table.New(table.Words("Row", "Number", "Printed", "Would be", "Off", "As it is"))
	last := 0
	for _, f := range a.Findings {
		row := ""
		if f.Row != last {
			row = fmt.Sprint(f.Row)
			if f.Line > 0 {
				row += fmt.Sprintf(" (line %d)", f.Line)
			}
			row = strings.TrimSpace(row + " " + words.Cut(f.Name, 40))
		}
		last = f.Row
		by := f.Bound + " " + f.Identity
		if f.Doubt {
			by += ", in doubt"
		}
		t.Add(words.Printable(row), words.Printable(f.Label), f.Printed, f.Nearest(), fmt.Sprintf("%+.1f %%", 100*f.Off), by)
	}
	return t
}
