package document

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spate-load/spate/internal/lists"
)

// maxCombinations bounds a matrix of settings.
const maxCombinations = 256

// matrix is the settings of an item. A combination of them is a mapping of single values.
type matrix struct {
	combinations, include, exclude []*yaml.Node
	baseline                       *yaml.Node
	size                           float64
	wrong                          func(node *yaml.Node, format string, args ...any)
}

// Expand replaces each item of a list of the document's top node that has settings by one item for each combination of
// their values. {NAME} in a text of the item is the value of the setting NAME. What is in no text is appended to
// server.start: --max-num-seqs 256 for max_num_seqs, and for true, false and null --NAME, --no-NAME and nothing. The
// name and the labels of an item say its settings. The error is Mistakes.
func (d *Document) Expand(list string) error {
	items := d.list(list)
	var all []*yaml.Node
	var found Mistakes
	for i, item := range items.Content {
		node := entry(item, "settings")
		if node == nil {
			all = append(all, item)
			continue
		}
		d.changed = true
		m := matrix{size: 1, wrong: func(node *yaml.Node, format string, args ...any) {
			found = append(found, Mistake{Path: d.path, Line: node.Line, Column: node.Column,
				Field: fmt.Sprintf("%s[%d].settings", list, i), Message: fmt.Sprintf(format, args...)})
		}}
		if m.read(node); len(found) == 0 {
			item = copied(item)
			remove(item, "settings")
			all = append(all, m.items(item, node)...)
		}
	}
	items.Content = all
	return found.OrNil()
}

// pairs calls visit for each name of a mapping and its value.
func pairs(mapping *yaml.Node, visit func(name, value *yaml.Node)) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		visit(mapping.Content[i], mapping.Content[i+1])
	}
}

// read reads the settings of an item, and combines their values: the last setting changes first.
func (m *matrix) read(node *yaml.Node) {
	m.combinations = []*yaml.Node{{Kind: yaml.MappingNode}}
	if node.Kind != yaml.MappingNode || len(node.Content) == 0 {
		m.wrong(node, "expected settings with their values, such as max_num_seqs: [256, 512], got %s", kindWord(node))
		return
	}
	pairs(node, func(name, value *yaml.Node) {
		switch name.Value {
		case "include":
			m.include = m.single(value.Content...)
		case "exclude":
			m.exclude = m.single(value.Content...)
		case "baseline":
			m.baseline = m.single(value)[0]
		default:
			m.combine(name, value)
		}
	})
	if len(m.combinations) > 0 && len(m.combinations[0].Content) == 0 {
		m.combinations, m.size = nil, 0
	}
	if m.size += float64(len(m.include)); m.size > maxCombinations {
		m.wrong(node, "are %.0f combinations, more than the limit of %d: give fewer values, or name single ones by include",
			m.size, maxCombinations)
	}
}

// combine combines what is read so far with the values of a setting.
func (m *matrix) combine(name, value *yaml.Node) {
	values := value.Content
	if value.Kind != yaml.SequenceNode {
		values = []*yaml.Node{value}
	}
	if m.size *= float64(len(values)); m.size > maxCombinations {
		return
	}
	var longer []*yaml.Node
	for _, begun := range m.combinations {
		for _, v := range values {
			next := &yaml.Node{Kind: yaml.MappingNode, Content: slices.Concat(begun.Content, []*yaml.Node{name, v})}
			longer = append(longer, m.single(next)...)
		}
	}
	m.combinations = longer
}

// single returns combinations. It finds what is none.
func (m *matrix) single(nodes ...*yaml.Node) []*yaml.Node {
	for _, node := range nodes {
		if node.Kind != yaml.MappingNode || len(node.Content) == 0 {
			m.wrong(node, "expected settings with one value each, such as {max_num_seqs: 256}, got %s", kindWord(node))
		}
		pairs(node, func(name, value *yaml.Node) {
			if value.Kind != yaml.ScalarNode {
				m.wrong(value, "a value of %s must be text, a number, true, false or null, got %s", shorten(name.Value),
					kindWord(value))
			}
		})
	}
	return nodes
}

// has reports whether a combination has all settings of another one.
func has(combination, all *yaml.Node) bool {
	found := true
	pairs(all, func(name, value *yaml.Node) {
		of := entry(combination, name.Value)
		found = found && of != nil && of.Value == value.Value && of.Tag == value.Tag
	})
	return found
}

// items returns an item for each combination.
func (m *matrix) items(item, node *yaml.Node) (all []*yaml.Node) {
	combinations := slices.Concat(slices.DeleteFunc(m.combinations, func(c *yaml.Node) bool {
		return slices.ContainsFunc(m.exclude, func(out *yaml.Node) bool { return has(c, out) })
	}), m.include)
	name, baselines := entry(item, "name"), 0
	for _, c := range combinations {
		made := copied(item)
		labels := child(made, "labels", yaml.MappingNode)
		pairs(c, func(setting, value *yaml.Node) {
			mark := "{" + setting.Value + "}"
			if of := entry(made, "name"); of != nil { // a name alone does not use a setting
				of.Value = strings.ReplaceAll(of.Value, mark, inName(value))
			}
			if !m.fill(made, mark, value) {
				m.start(made, setting, value)
			}
			if entry(labels, setting.Value) == nil {
				put(labels, setting.Value, textNode(settingText(value)))
			}
		})
		if name != nil && entry(made, "name").Value == name.Value {
			text := name.Value
			pairs(c, func(setting, value *yaml.Node) { text += " " + setting.Value + ":" + inName(value) })
			put(made, "name", textNode(text))
		}
		if m.baseline != nil && has(c, m.baseline) {
			put(made, "baseline", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
			baselines++
		}
		all = append(all, made)
	}
	switch {
	case len(all) == 0:
		m.wrong(node, "leave no combination: exclude less")
	case m.baseline != nil && baselines != 1:
		m.wrong(m.baseline, "baseline: %d combinations have these settings, it must be one", baselines)
	}
	return all
}

// settingText returns the value of a setting in words.
func settingText(value *yaml.Node) string {
	if isNull(value) {
		return "default"
	}
	return value.Value
}

// inName returns the value of a setting as the name of a target may have it.
func inName(value *yaml.Node) string { return notInNames.ReplaceAllString(settingText(value), "-") }

var notInNames = regexp.MustCompile(`[^A-Za-z0-9 ._:()/-]+`)

// fill replaces a mark in all texts within a node, and reports whether there was one. A text that is nothing else
// becomes the value as it is, so that it may be a number.
func (m *matrix) fill(node *yaml.Node, mark string, value *yaml.Node) (found bool) {
	for _, inner := range node.Content {
		found = m.fill(inner, mark, value) || found
	}
	switch {
	case node.Kind != yaml.ScalarNode || !strings.Contains(node.Value, mark):
		return found
	case isNull(value):
		m.wrong(value, "null leaves an option out, but %s stands in a text: give a value", mark)
	case node.Value == mark:
		replace(node, copied(value))
	default:
		node.Value = strings.ReplaceAll(node.Value, mark, value.Value)
	}
	return true
}

// start appends a setting to the command that starts the item's server.
func (m *matrix) start(item, setting, value *yaml.Node) {
	command := entry(cmp.Or(entry(item, "server"), &yaml.Node{}), "start")
	if command == nil || command.Kind != yaml.SequenceNode {
		m.wrong(setting, "%s is used nowhere: write {%[1]s} in a field of the target, or give the list server.start, "+
			"to which it is appended", shorten(setting.Value))
		return
	}
	option := strings.ReplaceAll(setting.Value, "_", "-")
	switch {
	case isNull(value):
	case value.Tag != "!!bool":
		command.Content = append(command.Content, textNode("--"+option), textNode(value.Value))
	case value.Value == "false":
		command.Content = append(command.Content, textNode("--no-"+option))
	default:
		command.Content = append(command.Content, textNode("--"+option))
	}
}

// copied returns a copy of a node and all that is within it.
func copied(node *yaml.Node) *yaml.Node {
	out := *node
	out.Content = lists.Each(node.Content, copied)
	return &out
}
