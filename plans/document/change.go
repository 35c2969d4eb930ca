package document

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Put sets a field of the document's top node to a mapping of one number, in braces. It replaces what the field had.
func (d *Document) Put(field, key string, number float64) error {
	if err := d.editable(); err != nil {
		return err
	}
	value := &yaml.Node{}
	if err := value.Encode(map[string]float64{key: number}); err != nil {
		return err
	}
	value.Style = yaml.FlowStyle
	put(d.tree.Content[0], field, value)
	return nil
}

// Keep removes all items of a list of the document's top node but those with the given names. The error names an item
// that the list does not have, and those that it has.
func (d *Document) Keep(field string, wanted []string) error {
	if err := d.editable(); err != nil {
		return err
	}
	list := entry(d.tree.Content[0], field)
	if list == nil || list.Kind != yaml.SequenceNode {
		return fmt.Errorf("the plan has no list of %s", field)
	}
	var names []string
	var kept []*yaml.Node
	for _, item := range list.Content {
		name := ""
		if n := entry(item, "name"); n != nil {
			name = n.Value
		}
		names = append(names, name)
		if slices.Contains(wanted, name) {
			kept = append(kept, item)
		}
	}
	for _, want := range wanted {
		if !slices.Contains(names, want) {
			return fmt.Errorf("none of the %s is named %q; there are: %s", field, shorten(want),
				strings.Join(names, ", "))
		}
	}
	list.Content = kept
	return nil
}

// editable refuses documents in which nothing can be changed, and notes that this one will be.
func (d *Document) editable() error {
	root := d.tree.Content[0]
	if readShape(root, d.desc).nodes > maxNodes {
		return d.tooManyValues()
	}
	if root.Kind != yaml.MappingNode {
		return Mistakes{{Path: d.path, Line: root.Line, Column: root.Column,
			Message: "expected fields (name: value), got " + kindWord(root)}}
	}
	d.changed = true
	return nil
}
