package plans

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Secrets looks up each secret reference of the plan once and returns the values by reference. The error is Mistakes
// with the position of each reference whose value is missing, empty or unfit for its place: a header, certificates in
// PEM, or a user and a password. Secrets blocks as lookup does.
func (p *Plan) Secrets(lookup secret.Lookup) (map[string]string, error) {
	values, ms := p.lookUp(lookup)
	if err := ms.OrNil(); err != nil {
		return nil, err
	}
	return values, nil
}

// lookUp looks up each reference once.
func (p *Plan) lookUp(lookup secret.Lookup) (map[string]string, Mistakes) {
	values, failed := make(map[string]string), make(map[string]string)
	var ms Mistakes
	for _, use := range p.references() {
		if _, known := values[use.Reference]; !known && failed[use.Reference] == "" {
			value, err := lookup(p.placed(use.Reference))
			if err == nil && value == "" {
				err = fmt.Errorf("%s is empty", p.placed(use.Reference))
			}
			if err != nil {
				failed[use.Reference] = err.Error()
			} else {
				values[use.Reference] = value
			}
		}
		if problem := cmp.Or(failed[use.Reference], use.Unfit(values[use.Reference])); problem != "" {
			ms = append(ms, p.Mistake(use.Field, problem))
		}
	}
	return values, ms
}

// placed returns a reference with the path of its file resolved against the folder of the plan's file.
func (p *Plan) placed(reference string) string {
	if path, is := strings.CutPrefix(reference, "file:"); is {
		return "file:" + p.beside(path)
	}
	return reference
}

// references returns the places at which the plan refers to secrets. A simulation needs none.
func (p *Plan) references() []secret.Use {
	if p.msg.GetSimulation() != nil {
		return nil
	}
	var uses []secret.Use
	for i, t := range p.msg.GetTargets() {
		uses = append(uses, secret.Uses(fmt.Sprintf("targets[%d]", i), t)...)
	}
	return uses
}

// File is a file that a plan names. The command that runs the plan reads it.
type File struct {
	// Field that names the file, such as "workloads[0].sharegpt.path": an argument for Plan.Mistake.
	Field string
	// Path of the file. A relative path in a plan is relative to the folder of the plan's file.
	Path string
	// Workload whose rows the file holds, with its full name (content.FullName) and defaults. nil: the file is a
	// tokenizer.
	Workload *spatev1.Workload
	// Mixture and Part are the mixture that the workload is a part of, and the part. nil: it is none.
	Mixture *spatev1.Workload
	Part    *spatev1.Part
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
		for j, part := range content.Parts(w) {
			if path, field := content.Path(part); path != "" {
				of := defaults.Workload(part)
				of.Name = content.FullName(w, part)
				file := File{Field: partField(i, w, j) + "." + field, Path: p.beside(path), Workload: of}
				if w.GetMix() != nil {
					file.Mixture, file.Part = w, w.GetMix().GetParts()[j]
				}
				files = append(files, file)
			}
		}
	}
	return files
}

// AskFiles returns the files with tools, with schemas and of forms that must be read before the plan is expanded,
// because the plan does not have their content. The field is the one that the content belongs to, such as
// "workloads[0].tools.definitions".
func (p *Plan) AskFiles() []File {
	var files []File
	for i, t := range p.msg.GetTargets() {
		for j, f := range t.GetTemplate().GetFiles() {
			if f.GetContent() == "" {
				files = append(files, File{Field: fmt.Sprintf("targets[%d].template.files[%d].content", i, j),
					Path: p.beside(f.GetPath())})
			}
		}
	}
	add := func(at string, w *spatev1.Workload) {
		if t := w.GetTools(); t.GetPath() != "" && len(t.GetDefinitions()) == 0 {
			files = append(files, File{Field: at + ".tools.definitions", Path: p.beside(t.GetPath())})
		}
		if a := w.GetAnswer(); a.GetPath() != "" && a.GetSchema() == nil {
			files = append(files, File{Field: at + ".answer.schema", Path: p.beside(a.GetPath())})
		}
	}
	for i, w := range p.msg.GetWorkloads() {
		add(fmt.Sprintf("workloads[%d]", i), w)
		for j, part := range w.GetMix().GetParts() {
			add(partField(i, w, j), part.GetWorkload())
		}
	}
	return files
}

// shippedPrefix starts the path of a file that ships with the program.
const shippedPrefix = "shipped:"

// HubPrefix starts the path of a dataset on Hugging Face's Hub.
const HubPrefix = "hf://"

// beside resolves a path in the plan. A relative path is relative to the folder of the plan's file.
func (p *Plan) beside(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, shippedPrefix) || strings.HasPrefix(path, HubPrefix) {
		return path
	}
	return filepath.Join(filepath.Dir(p.path), path)
}
