package document

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// kindWord names the kind of a node in a plan author's words, without its value, which may be a secret.
func kindWord(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "fields"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(node):
		return "nothing"
	case node.Tag == "!!int" || node.Tag == "!!float":
		return "a number"
	case node.Tag == "!!bool":
		return "true or false"
	}
	return "text"
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

func (s *shape) scalar(path string, node *yaml.Node, field protoreflect.FieldDescriptor) {
	switch kind := field.Kind(); {
	case isNull(node), node.Kind == yaml.ScalarNode && node.Value == "" && zeroIsDefault(field):
		s.add(path, node, "is empty: give a value or leave it out")
	case kind == protoreflect.StringKind:
		s.text(path, node)
	case kind == protoreflect.DoubleKind:
		s.number(path, node)
	case kind == protoreflect.Uint32Kind:
		s.whole(path, node, 32)
	case kind == protoreflect.Uint64Kind:
		s.whole(path, node, 64)
	}
}

// zeroIsDefault reports whether the schema's rules ignore a field that is not set. They would not notice an empty text.
func zeroIsDefault(field protoreflect.FieldDescriptor) bool {
	rules, ok := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	return ok && rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE
}

func (s *shape) text(path string, node *yaml.Node) {
	if node.Kind != yaml.ScalarNode {
		s.add(path, node, "expected text, got %s", kindWord(node))
	} else if node.Tag != "!!str" {
		s.add(path, node, "expected text, got %s: put it in quotes", kindWord(node))
	}
}

func (s *shape) whole(path string, node *yaml.Node, bits int) {
	largest := uint64(math.MaxUint64) >> (64 - bits)
	if _, err := strconv.ParseUint(node.Value, 10, bits); err == nil && node.Tag == "!!int" {
		return
	}
	switch {
	case quoted(node) && allDigits.MatchString(node.Value):
		s.add(path, node, "expected a whole number: take it out of its quotes")
	case node.Tag == "!!int" && strings.HasPrefix(node.Value, "-"):
		s.add(path, node, "must not be negative, got %s", shorten(node.Value))
	case node.Tag == "!!int" || node.Tag == "!!float":
		s.add(path, node, "expected a whole number in plain digits, at most %d, got %s", largest, shorten(node.Value))
	case node.Kind == yaml.ScalarNode:
		s.add(path, node, "expected a whole number like 8, got %q", shorten(node.Value))
	default:
		s.add(path, node, "expected a whole number, got %s", kindWord(node))
	}
}

var allDigits = regexp.MustCompile(`^[0-9]+$`)

func quoted(node *yaml.Node) bool {
	return node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
}

func (s *shape) number(path string, node *yaml.Node) {
	numeric := node.Tag == "!!int" || node.Tag == "!!float"
	v, err := strconv.ParseFloat(node.Value, 64)
	switch {
	case node.Kind != yaml.ScalarNode:
		s.add(path, node, "expected a number, got %s", kindWord(node))
	case quoted(node) && err == nil:
		s.add(path, node, "expected a number: take it out of its quotes")
	case !numeric || err != nil || math.IsInf(v, 0) || math.IsNaN(v):
		s.add(path, node, "expected a number like 2 or 0.5, got %q", shorten(node.Value))
	}
}

// duration also uses the standard library, which has the decoder's syntax but notices overflow.
func (s *shape) duration(path string, node *yaml.Node) {
	if isNull(node) {
		s.add(path, node, "is empty: give a duration like 30s or 5m, or leave it out")
		return
	}
	if node.Kind != yaml.ScalarNode {
		s.add(path, node, "expected a duration like 30s or 5m, got %s", kindWord(node))
		return
	}
	_, syntax := time.ParseDuration(node.Value)
	_, exact := protoyaml.ParseDuration(node.Value)
	switch {
	case syntax != nil:
		s.add(path, node, "expected a duration like 30s or 5m, got %q", shorten(node.Value))
	case exact != nil:
		s.add(path, node, "expected a duration in whole nanoseconds, got %q", shorten(node.Value))
	}
}

// maxExact is the largest whole number that all JSON readers represent exactly.
const maxExact = 1 << 53

// jsonScalar refuses scalars that the decoder would silently send as text.
func (s *shape) jsonScalar(path string, node *yaml.Node) {
	switch node.Tag {
	case "!!bool":
		if node.Value != "true" && node.Value != "false" {
			s.add(path, node, "must be true or false in lower case, or text in quotes")
		}
	case "!!int":
		if v, err := strconv.ParseInt(node.Value, 10, 64); err != nil || v > maxExact || v < -maxExact {
			s.add(path, node, "is not a decimal number that JSON can hold exactly: put it in quotes to send it as text")
		}
	case "!!float":
		if v, err := strconv.ParseFloat(node.Value, 64); err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			s.add(path, node, "is not a number in JSON: put it in quotes to send it as text")
		}
	}
}

// shorten keeps a value from flooding a message.
func shorten(value string) string {
	const most = 64
	runes := []rune(value)
	if len(runes) <= most {
		return value
	}
	return string(runes[:most]) + "..."
}

var durationText = regexp.MustCompile(`^[-+]?[0-9.]+(ns|us|µs|μs|ms|s|m|h)[0-9.hmsuµμn]*$`)
