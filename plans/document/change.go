package document

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Edit prepares the document for changes. It returns an error if nothing can be changed in it. It is called before the
// methods that change the document.
func (d *Document) Edit() error {
	if root := d.tree.Content[0]; root.Kind != yaml.MappingNode {
		return Mistakes{{Path: d.path, Line: root.Line, Column: root.Column,
			Message: "expected fields (name: value), got " + kindWord(root)}}
	}
	d.changed = true
	return nil
}

// list returns the items of a list of the document's top node. An empty one: it has none.
func (d *Document) list(field string) *yaml.Node {
	if list := entry(d.tree.Content[0], field); list != nil && list.Kind == yaml.SequenceNode {
		return list
	}
	return &yaml.Node{}
}

// Put sets a field of the document's top node to a mapping of one number, in braces. It replaces what the field had.
func (d *Document) Put(field, key string, number float64) error {
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
	list := d.list(field)
	if list.Kind != yaml.SequenceNode {
		return fmt.Errorf("the plan has no list of %s", field)
	}
	var names []string
	for _, item := range list.Content {
		name := ""
		if n := entry(item, "name"); n != nil {
			name = n.Value
		}
		names = append(names, name)
	}
	for _, want := range wanted {
		if !slices.Contains(names, want) {
			return fmt.Errorf("none of the %s is named %q; there are: %s", field, shorten(want), strings.Join(names, ", "))
		}
	}
	d.keep(field, func(i int) bool { return slices.Contains(wanted, names[i]) })
	return nil
}

// keep removes all items of a list of the document's top node but those whose index is wanted.
func (d *Document) keep(field string, wanted func(i int) bool) {
	list := d.list(field)
	var kept []*yaml.Node
	for i, item := range list.Content {
		if wanted(i) {
			kept = append(kept, item)
		}
	}
	list.Content = kept
}

// Drop removes those items of a list of the document's top node whose field has only values that are not among values.
// Of a field that is a list, these values are removed. Items without the field remain.
func (d *Document) Drop(list, field string, values []string) {
	other := func(value *yaml.Node) bool { return !slices.Contains(values, value.Value) }
	items := d.list(list)
	items.Content = slices.DeleteFunc(items.Content, func(item *yaml.Node) bool {
		value := entry(item, field)
		if value == nil || value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
			return value != nil && value.Kind == yaml.ScalarNode && other(value)
		}
		value.Content = slices.DeleteFunc(value.Content, other)
		return len(value.Content) == 0
	})
	if len(items.Content) == 0 && items.Kind == yaml.SequenceNode {
		remove(d.tree.Content[0], list)
	}
}

// DropUnused removes those items of a list of the document's top node that no user names. Users are the items of
// another list. They name items in a field that is named as the list; users without the field name all. It returns the
// names of the items that remain.
func (d *Document) DropUnused(list, users string, nameOf NameOf) (kept []string) {
	using := d.list(users).Content
	uses := func(name string) bool {
		return len(using) == 0 || slices.ContainsFunc(using, func(user *yaml.Node) bool {
			field := entry(user, list)
			return field == nil || field.Value == name ||
				slices.ContainsFunc(field.Content, func(n *yaml.Node) bool { return n.Value == name })
		})
	}
	names := nameOf.names(d.list(list), d.desc.Fields().ByTextName(list))
	d.keep(list, func(i int) bool { return uses(names[i]) })
	return slices.DeleteFunc(names, func(name string) bool { return !uses(name) })
}

// NamesWithin returns the names of the items of lists that are within the items of a list of the document's top node:
// of "workloads", those of "parts" in "mix".
func (d *Document) NamesWithin(list, field, inner string, nameOf NameOf) (names []string) {
	desc := d.desc.Fields().ByTextName(list).Message().Fields().ByTextName(field).Message().Fields().ByTextName(inner)
	for _, item := range d.list(list).Content {
		if outer := entry(item, field); outer != nil {
			if within := entry(outer, inner); within != nil {
				names = append(names, nameOf.names(within, desc)...)
			}
		}
	}
	return names
}

// Append adds an item with one field for each of texts to a list of the document's top node. The list is made if there
// is none.
func (d *Document) Append(list, field string, texts []string) error {
	items := child(d.tree.Content[0], list, yaml.SequenceNode)
	if items.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s: expected a list, but the plan has %s there", list, kindWord(items))
	}
	for _, text := range texts {
		item := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
		put(item, field, textNode(text))
		items.Content = append(items.Content, item)
	}
	return nil
}

// entry returns the value of a mapping's key, or nil if there is none.
func entry(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// child returns the value of a mapping's key. It creates the value if there is none.
func child(node *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	found := entry(node, key)
	if found == nil || isNull(found) {
		found = put(node, key, &yaml.Node{Kind: kind})
	}
	return found
}

// put sets the value of a mapping's key, at its existing place or else at the end, and returns the value.
func put(node *yaml.Node, key string, value *yaml.Node) *yaml.Node {
	if found := entry(node, key); found != nil {
		replace(found, value)
		return found
	}
	node.Content = append(node.Content, textNode(key), value)
	return value
}

// remove removes a key of a mapping and its value.
func remove(node *yaml.Node, key string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			node.Content = slices.Delete(node.Content, i, i+2)
			return
		}
	}
}

// replace replaces a value and keeps the comments of the old one.
func replace(old, value *yaml.Node) {
	value.HeadComment, value.LineComment, value.FootComment = old.HeadComment, old.LineComment, old.FootComment
	*old = *value
}

func textNode(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	if value == mergeKey {
		// The encoder would write it without quotes, and a reader would take it for a merge key.
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// mergeKey is YAML's key that merges the fields of another mapping.
const mergeKey = "<<"
