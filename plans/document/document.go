// Package document reads a message from YAML with the position of everything in it. It reports what is wrong with the
// text by line and column, all at once, changes single fields on request, and refuses what the decoder would take
// but no person means: "4k" as a number, a field's number as its name, a duplicate key, a null.
//
// The package knows the schema only from the message's descriptor and its rules. It opens no files.
package document

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Document is the YAML of one message. Parse returns it; Assign, Put and Keep change it; Read decodes it. It is not
// safe for concurrent use while it changes.
type Document struct {
	path string
	data []byte
	tree *yaml.Node // The document node, with the comments before and after its top node.
	desc protoreflect.MessageDescriptor

	changed bool
	origins map[position]position // Of a changed document: by position in data, that in the text given to Parse.

	shape    *shape
	mistakes Mistakes
	complete bool
}

// position of a node, both numbers counted from 1. The zero value means that it is not known.
type position struct{ line, column int }

// Parse reads data, which must be one YAML document of at most maxBytes bytes. The error is Mistakes. path is only the
// file name in mistakes.
func Parse(path string, data []byte, desc protoreflect.MessageDescriptor, maxBytes int) (*Document, error) {
	if ms := checkText(path, data, maxBytes); ms != nil {
		return nil, ms
	}
	tree, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	return &Document{path: path, data: data, tree: tree, desc: desc}, nil
}

// Source returns the YAML that Read decoded: the bytes given to Parse, or those with the changes. The caller must not
// change it.
func (d *Document) Source() []byte { return d.data }

// Read decodes the document into msg. The error is Mistakes, about a document that is too large or cannot be written
// with its changes. What else is wrong, Mistakes returns.
func (d *Document) Read(msg proto.Message) error {
	if d.changed {
		if err := d.rewrite(); err != nil {
			return err
		}
	}
	root := d.tree.Content[0]
	full, edits := writeOut(d.data, root, d.desc)
	d.shape = readShape(root, d.desc)
	if d.shape.nodes > maxNodes {
		return d.tooManyValues()
	}
	decoded, complete := decode(d.path, full, msg)
	d.complete = complete
	d.mistakes = d.placed(append(d.shape.mistakes(d.path), d.shape.news(asWritten(decoded, edits))...))
	return nil
}

func (d *Document) tooManyValues() Mistakes {
	return Mistakes{{Path: d.path, Message: fmt.Sprintf("the plan has more than %d values", maxNodes)}}
}

// Mistakes returns where the document does not fit the schema.
func (d *Document) Mistakes() Mistakes { return d.mistakes }

// Complete reports whether Read decoded all of the document. If not, the message has only a part of its fields.
func (d *Document) Complete() bool { return d.complete }

// Has reports whether the document has the field, even if it is empty or wrong.
func (d *Document) Has(path string) bool { return d.shape.at[path] != nil }

// Given returns those of the fields that the document has at path.
func (d *Document) Given(path string, fields ...string) []string {
	return slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return !d.Has(path + "." + field) })
}

// At returns a mistake at a field, such as "workloads[0].jsonl.path". If the document does not have the field, the
// mistake is at the node around it.
func (d *Document) At(field, message string) Mistake {
	return d.placed(Mistakes{d.shape.mistake(d.path, Finding{Path: field, Message: message})})[0]
}

// Quote returns the value of a field for a message, or "" if it must not be repeated: only numbers and durations are,
// because a text may be a secret in the wrong place.
func (d *Document) Quote(path string) string {
	node := d.shape.at[path]
	if node != nil && (kindWord(node) == "a number" || durationText.MatchString(node.Value)) {
		return shorten(node.Value)
	}
	return ""
}

// Relevant returns the findings as mistakes, without those that follow from mistakes of the document's shape: rules
// broken by a value that could not be read, and fields that are missing because their name is misspelt.
func (d *Document) Relevant(found []Finding) Mistakes {
	var ms Mistakes
	for _, f := range found {
		if !d.shape.explained(f) {
			ms = append(ms, d.shape.mistake(d.path, f))
		}
	}
	return d.placed(ms)
}

// placed converts positions in changed YAML to positions in the YAML that the author wrote.
func (d *Document) placed(ms Mistakes) Mistakes {
	if d.origins == nil {
		return ms
	}
	for i, m := range ms {
		origin := d.origins[position{m.Line, m.Column}]
		ms[i].Line, ms[i].Column = origin.line, origin.column
	}
	return ms
}

// rewrite replaces the text and the tree of a changed document, and records where each node came from.
func (d *Document) rewrite() error {
	data, err := encode(d.path, d.tree)
	if err != nil {
		return err
	}
	tree, err := parse(d.path, data)
	if err != nil {
		return err
	}
	d.origins = make(map[position]position)
	d.trace(tree, d.tree)
	d.data, d.tree, d.changed = data, tree, false
	return nil
}

// trace records the origins of a node that was written again and of those in it. Nodes that a change added have none.
func (d *Document) trace(again, before *yaml.Node) {
	at := position{again.Line, again.Column}
	if _, known := d.origins[at]; !known { // A mapping begins where its first key does.
		d.origins[at] = position{before.Line, before.Column}
	}
	for i := range min(len(again.Content), len(before.Content)) {
		d.trace(again.Content[i], before.Content[i])
	}
}

// encode returns a tree as YAML. It guards the library as parse does: among others, aliases, which a plan must not
// have, can point anywhere.
func encode(path string, tree *yaml.Node) (text []byte, err error) {
	defer recoverMistake(path, &err)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(tree); err != nil {
		return nil, fmt.Errorf("the changed plan cannot be written: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("the changed plan cannot be written: %w", err)
	}
	return b.Bytes(), nil
}

// Parent returns the path without its last step.
func Parent(path string) string {
	if strings.HasSuffix(path, `"]`) {
		return path[:max(strings.Index(path, `["`), 0)]
	}
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}
