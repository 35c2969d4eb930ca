package plans

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// File is a file that a plan names. The command that runs the plan reads it.
type File struct {
	// Field that names the file, such as "workloads[0].sharegpt.path": an argument for Plan.Mistake.
	Field string
	// Path of the file. A relative path in a plan is relative to the folder of the plan's file.
	Path string
	// Workload whose rows the file holds, with its name and defaults. nil: the file is a tokenizer.
	Workload *spatev1.Workload
	// Target whose tokenizer the file is, with its defaults. nil: the file belongs to a workload.
	Target *spatev1.Target
}

// Files returns the files of the plan's workloads and of its targets' tokenizers, in the plan's order. It does not open
// them. Files that hold secrets are not included.
func (p *Plan) Files() []File {
	var files []File
	for i, t := range targetsOf(p.msg) {
		if path, ok := strings.CutPrefix(t.GetTokenizer(), "file:"); ok {
			files = append(files, File{Field: fmt.Sprintf("targets[%d].tokenizer", i), Path: p.beside(path), Target: t})
		}
	}
	for i, w := range p.msg.GetWorkloads() {
		if path := content.Path(w); path != "" {
			field := fmt.Sprintf("workloads[%d].%s.path", i, content.Kind(w))
			files = append(files, File{Field: field, Path: p.beside(path), Workload: defaults.Workload(w)})
		}
	}
	return files
}

// shippedPrefix starts the path of a file that ships with the program.
const shippedPrefix = "shipped:"

// beside resolves a path in the plan. A relative path is relative to the folder of the plan's file.
func (p *Plan) beside(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, shippedPrefix) {
		return path
	}
	return filepath.Join(filepath.Dir(p.path), path)
}
