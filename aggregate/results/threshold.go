package results

import "strings"

// Words returns the condition, with what it is for in brackets.
func (t *Threshold) Words() string {
	var names []string
	for _, name := range []*string{t.Target, t.Workload, t.Load} {
		if name != nil {
			names = append(names, *name)
		}
	}
	if t.Part != nil {
		names = append(names, "part "+*t.Part)
	}
	if names == nil {
		return t.That
	}
	return t.That + " (" + strings.Join(names, ", ") + ")"
}
