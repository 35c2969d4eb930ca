// Package document reads a message from YAML with the position of everything in it. It reports what is wrong with the
// text by line and column, all at once, changes single fields on request, and refuses what no person means: a number in
// quotes, a duplicate key, a null.
//
// The package knows the schema only from the message's descriptor and its rules. It opens no files.
package document

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// Document is the YAML of one message. Parse returns it; Assign, Put and Keep change it; Read reads it. It is not
// safe for concurrent use while it changes.
type Document struct {
	path string
	data []byte
	tree *yaml.Node // The document node, with the comments before and after its top node.
	desc protoreflect.MessageDescriptor

	changed bool
	shape   *shape
}

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
	if count(tree) > maxNodes {
		return nil, Mistakes{{Path: path, Message: fmt.Sprintf("the plan has more than %d values", maxNodes)}}
	}
	return &Document{path: path, data: data, tree: tree, desc: desc}, nil
}

// count returns the number of nodes in a tree.
func count(node *yaml.Node) int { return 1 + lists.Sum(node.Content, count) }

// Source returns the YAML that Read read: the bytes given to Parse, or those with the changes. The caller must not
// change it.
func (d *Document) Source() []byte { return d.data }

// Read fills msg with what the document has and the schema knows. The error is about a document that cannot be written
// with its changes. What is wrong, Mistakes returns.
func (d *Document) Read(msg proto.Message) (err error) {
	if d.changed {
		if d.data, err = encode(d.path, d.tree); err != nil {
			return err
		}
		d.changed = false
	}
	d.shape = readShape(d.tree.Content[0], msg.ProtoReflect())
	return nil
}

// Mistakes returns where the document does not fit the schema. Positions are those in the text given to Parse; what a
// change added has none.
func (d *Document) Mistakes() Mistakes {
	return lists.Each(d.shape.found, func(f Finding) Mistake { return d.shape.mistake(d.path, f) })
}

// Has reports whether the document has the field, even if it is empty or wrong.
func (d *Document) Has(path string) bool { return d.shape.at[path] != nil }

// Given returns those of the fields that the document has at path.
func (d *Document) Given(path string, fields ...string) []string {
	return slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return !d.Has(path + "." + field) })
}

// At returns a mistake at a field, such as "workloads[0].jsonl.path". If the document does not have the field, the
// mistake is at the node around it.
func (d *Document) At(field, message string) Mistake {
	return d.shape.mistake(d.path, Finding{Path: field, Message: message})
}

// Relevant returns the findings as mistakes, without those that follow from mistakes of the document's shape: rules
// broken by a value that could not be read, and fields that are missing because their name is misspelt.
func (d *Document) Relevant(found []Finding) Mistakes {
	relevant := lists.Where(found, func(f Finding) bool { return !d.shape.explained(f) })
	return lists.Each(relevant, func(f Finding) Mistake { return d.shape.mistake(d.path, f) })
}

// encode returns a tree as YAML. It guards the library as parse does: among others, aliases, which a plan must not
// have, can point anywhere.
func encode(path string, tree *yaml.Node) (text []byte, err error) {
	defer recoverMistake(path, &err)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := cmp.Or(encoder.Encode(tree), encoder.Close()); err != nil {
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

// parse returns the document node of data, which must hold one YAML document.
func parse(path string, data []byte) (document *yaml.Node, err error) {
	defer recoverMistake(path, &err)
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	document = &yaml.Node{}
	if err := decoder.Decode(document); errors.Is(err, io.EOF) {
		return nil, Mistakes{{Path: path,
			Message: "the plan is empty: it needs at least a name, targets, workloads and loads"}}
	} else if err != nil {
		return nil, syntaxMistakes(path, data, err)
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, Mistakes{{Path: path, Line: second.Line, Column: second.Column,
			Message: "a second document starts here: a plan is one document; put each in its own file"}}
	case !errors.Is(err, io.EOF):
		return nil, syntaxMistakes(path, data, err)
	}
	return document, nil
}

// recoverMistake turns a panic of the YAML library into a mistake, because plans come from people and over the network.
// It guards library calls only, so that it hides no panic of our own code.
func recoverMistake(path string, err *error) {
	if r := recover(); r != nil {
		*err = Mistakes{{Path: path, Message: fmt.Sprintf("the YAML reader failed on this file: %v", r)}}
	}
}

// checkText refuses what no plan contains and what YAML readers disagree on: a size above the limit, bytes that are not
// UTF-8, NUL, and line breaks that editors do not count as lines (they would shift every position after them).
func checkText(path string, data []byte, maxBytes int) Mistakes {
	if len(data) > maxBytes {
		return Mistakes{{Path: path, Message: fmt.Sprintf("the plan has %d bytes, more than the limit of %d",
			len(data), maxBytes)}}
	}
	line, start := 1, 0
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if what := unreadable(r, size, data[i+size:]); what != "" {
			return Mistakes{{Path: path, Line: line, Column: utf8.RuneCount(data[start:i]) + 1, Message: what}}
		}
		i += size
		if r == '\n' {
			line, start = line+1, i
		}
	}
	return nil
}

// unreadable returns what is wrong with a rune, given what follows it, or "" if nothing is.
func unreadable(r rune, size int, rest []byte) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return "the text is not UTF-8: save the file as UTF-8"
	case r == 0:
		return "the file contains a NUL byte: it is not a text file, or it is UTF-16"
	case r == '\r' && !bytes.HasPrefix(rest, []byte("\n")):
		return "a carriage return without a line feed: save the file with Unix line endings"
	case r == '\u0085', r == '\u2028', r == '\u2029':
		return fmt.Sprintf("the line break %U is not readable: in double quotes write it as \\u%04X", r, r)
	}
	return ""
}

// readerError matches an error of the YAML reader. Its line is often that of the block around the mistake, or a
// neighbouring line, and it has no column.
var readerError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// indentation matches what the YAML reader says of lines that start in the wrong column.
var indentation = regexp.MustCompile(`mapping values are not allowed|did not find expected (key|'-' indicator)`)

// syntaxMistakes says why data is not YAML, and where.
func syntaxMistakes(path string, data []byte, err error) Mistakes {
	m := Mistake{Path: path, Message: "not readable as YAML: " + err.Error()}
	if part := readerError.FindStringSubmatch(err.Error()); part != nil {
		m.Line, _ = strconv.Atoi(part[1])
		m.Message = "not readable as YAML: " + part[2]
		if indentation.MatchString(part[2]) {
			m.Message += ": check the indentation, fields that belong together start in one column"
		}
	}
	if at, found := brokenAt(data); found {
		begin := bytes.LastIndexByte(data[:at], '\n') + 1
		m.Line, m.Column = bytes.Count(data[:at], []byte("\n"))+1, utf8.RuneCount(data[begin:at])+1
		if tab := tabIn(data[begin:]); tab > 0 && strings.Contains(m.Message, "found ") {
			m.Column, m.Message = tab, "a tab in the indentation: indent with spaces"
		}
	}
	return Mistakes{m}
}

// tabIn returns the column of the first tab in the indentation of a line, counted from 1, or 0 if there is none.
func tabIn(line []byte) int {
	indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return bytes.IndexByte(indent, '\t') + 1
}

// searchBudget bounds the bytes that brokenAt parses in total: less than a second's work, however deeply they are
// nested.
const searchBudget = 1 << 20

// brokenAt returns the offset of the byte that makes data invalid YAML: data up to that byte is valid, and no longer
// prefix is. For a quote or bracket that is never closed, it returns the offset of the opening character.
func brokenAt(data []byte) (offset int, found bool) {
	budget := searchBudget
	fine := func(n int) bool {
		budget -= n
		return budget < 0 || wellFormed(bytes.NewReader(data[:n]))
	}
	asked := &byteReader{data: data}
	wellFormed(asked)
	end := asked.offset // up to which the YAML reader asks for data, which is invalid, before it fails
	var line int
	for {
		line = bytes.LastIndexByte(data[:max(0, end-1)], '\n') + 1
		if fine(line) {
			break
		}
		end = line
	}
	for end--; end > line && !fine(end); {
		end--
	}
	return end, budget >= 0
}

// byteReader returns one byte at a time, so that nothing is read ahead.
type byteReader struct {
	data   []byte
	offset int
}

func (r *byteReader) Read(p []byte) (n int, err error) {
	if r.offset == len(r.data) {
		return 0, io.EOF
	}
	r.offset++
	return copy(p, r.data[r.offset-1:r.offset]), nil
}

// wellFormed reports whether the input is YAML, of any number of documents.
func wellFormed(r io.Reader) bool {
	decoder := yaml.NewDecoder(r)
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return false
		}
	}
}

// Mistake is one thing that is wrong with a plan. It never holds the value of a secret.
type Mistake struct { //nolint:errname // the domain word: a person made it
	// Path of the plan's file, as given to Load. Empty: the plan is from flags.
	Path string
	// Line and Column of the mistake, both counted from 1. 0: not known.
	Line, Column int
	// Field that is wrong, such as "loads[0].rate". Empty: the whole plan.
	Field string
	// Message says what was expected.
	Message string
}

// Error returns "path:line:column: field: message", without the parts that are not known.
func (m Mistake) Error() string {
	where := m.Path
	if m.Path != "" && m.Line > 0 {
		where += fmt.Sprintf(":%d", m.Line)
		if m.Column > 0 {
			where += fmt.Sprintf(":%d", m.Column)
		}
	}
	return words.Joined(": ", where, m.Field, m.Message)
}

// Mistakes are all mistakes of a plan, sorted by line. A non-empty Mistakes is an error.
type Mistakes []Mistake //nolint:errname // as Mistake

// mostShown bounds the lines of a message, so that people can read it even if a whole file is wrong.
const mostShown = 100

// Error returns one line for each mistake, at most a hundred.
func (ms Mistakes) Error() string {
	var lines []string
	for i, m := range ms {
		if i == mostShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(ms)-mostShown))
			break
		}
		lines = append(lines, m.Error())
	}
	return strings.Join(lines, "\n")
}

// OrNil returns the mistakes by position, without duplicates, or nil if there are none: a Mistakes without elements
// would be a non-nil error.
func (ms Mistakes) OrNil() error {
	if len(ms) == 0 {
		return nil
	}
	slices.SortStableFunc(ms, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ms)
}
