package plans

import (
	"fmt"
	"path/filepath"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// File is a file that a plan names and the command that runs it reads.
type File struct {
	// Field that names it, such as "workloads[0].sharegpt.path": what Plan.Mistake takes.
	Field string
	// Path of the file. One that is relative in the plan begins at the folder of the plan's file.
	Path string
	// Workload whose rows it holds, with its name and defaults. nil: it is a tokenizer.
	Workload *spatev1.Workload
	// Target whose tokenizer it is, with its defaults. nil: it belongs to a workload.
	Target *spatev1.Target
}

// Files returns the files of the plan's workloads and of its targets' tokenizers, in the plan's order. It opens none of
// them. Secret references are no such files.
func (p *Plan) Files() []File {
	var files []File
	for i, t := range p.targets() {
		if path, ok := strings.CutPrefix(t.GetTokenizer(), "file:"); ok {
			files = append(files, File{Field: fmt.Sprintf("targets[%d].tokenizer", i), Path: p.beside(path), Target: t})
		}
	}
	for i, w := range p.msg.GetWorkloads() {
		if path := contentFile(w); path != "" {
			field := fmt.Sprintf("workloads[%d].%s.path", i, contentKind(w))
			files = append(files, File{Field: field, Path: p.beside(path), Workload: filledWorkload(w)})
		}
	}
	return files
}

// shippedPrefix begins the path of a file that ships with the program.
const shippedPrefix = "shipped:"

// beside returns a path that the plan names: a relative one begins at the folder of the plan's file.
func (p *Plan) beside(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, shippedPrefix) {
		return path
	}
	return filepath.Join(filepath.Dir(p.path), path)
}
