package plans

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spate-load/spate/plans/secret"
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
