package document

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
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
	case node.Tag == "!!timestamp":
		return "a date"
	}
	return "text"
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

// scalar returns the value of a field. It is not valid if the node has none for it. A value that breaks the rules is
// valid.
func (s *shape) scalar(
	path string, node *yaml.Node, field protoreflect.FieldDescriptor, rules *validate.FieldRules, inWords string,
) protoreflect.Value {
	var v any
	ok := false
	optional := rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE // The rules would not notice an empty text.
	switch kind := field.Kind(); {
	case s.alias(path, node):
	case isNull(node) || node.Kind == yaml.ScalarNode && node.Value == "" && optional:
		s.add(path, node, "is empty: give a value or leave it out")
	case kind == protoreflect.StringKind:
		v, ok = node.Value, s.text(path, node)
	case kind == protoreflect.DoubleKind:
		v, ok = s.number(path, node)
	case kind == protoreflect.Uint32Kind:
		n, read := s.whole(path, node, 32)
		v, ok = uint32(n), read //nolint:gosec // whole has checked it
	case kind == protoreflect.Uint64Kind:
		v, ok = s.whole(path, node, 64)
	case kind == protoreflect.BoolKind:
		v, ok = s.boolean(path, node)
	default:
		panic(fmt.Sprintf("document: fields of kind %v, such as %s, cannot be read", kind, field.FullName()))
	}
	if !ok {
		return protoreflect.Value{}
	}
	s.check(path, node, v, rules, inWords)
	return protoreflect.ValueOf(v)
}

func (s *shape) text(path string, node *yaml.Node) bool {
	if node.Kind != yaml.ScalarNode {
		s.add(path, node, "expected text, got %s", kindWord(node))
	} else if node.Tag != "!!str" {
		s.add(path, node, "expected text, got %s: put it in quotes", kindWord(node))
	}
	return node.Kind == yaml.ScalarNode && node.Tag == "!!str"
}

func (s *shape) boolean(path string, node *yaml.Node) (value, ok bool) {
	if node.Tag != "!!bool" || node.Value != "true" && node.Value != "false" {
		s.add(path, node, "expected true or false, got %s", kindWord(node))
		return false, false
	}
	return node.Value == "true", true
}

func (s *shape) whole(path string, node *yaml.Node, bits int) (value uint64, ok bool) {
	largest := uint64(math.MaxUint64) >> (64 - bits)
	if n, err := strconv.ParseUint(node.Value, 10, bits); err == nil && node.Tag == "!!int" {
		return n, true
	}
	if n, err := strconv.ParseFloat(node.Value, 64); err == nil && withExponent.MatchString(node.Value) &&
		n <= min(float64(largest), 1<<53) {
		return uint64(n), true
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
	return 0, false
}

var (
	allDigits = regexp.MustCompile(`^[0-9]+$`)
	// withExponent matches a whole number like 1e4 or 12e06.
	withExponent = regexp.MustCompile(`^[0-9]+[eE]\+?[0-9]+$`)
)

func quoted(node *yaml.Node) bool {
	return node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
}

func (s *shape) number(path string, node *yaml.Node) (value float64, ok bool) {
	numeric := node.Tag == "!!int" || node.Tag == "!!float"
	v, err := strconv.ParseFloat(node.Value, 64)
	switch {
	case node.Kind != yaml.ScalarNode:
		s.add(path, node, "expected a number, got %s", kindWord(node))
	case quoted(node) && err == nil:
		s.add(path, node, "expected a number: take it out of its quotes")
	case !numeric || err != nil || math.IsInf(v, 0) || math.IsNaN(v):
		s.add(path, node, "expected a number like 2 or 0.5, got %q", shorten(node.Value))
	default:
		return v, true
	}
	return 0, false
}

func (s *shape) duration(path string, node *yaml.Node, into *durationpb.Duration) (ok bool) {
	switch d, err := time.ParseDuration(node.Value); {
	case isNull(node):
		s.add(path, node, "is empty: give a duration like 30s or 5m, or leave it out")
	case node.Kind != yaml.ScalarNode:
		s.add(path, node, "expected a duration like 30s or 5m, got %s", kindWord(node))
	case err != nil:
		s.add(path, node, "expected a duration like 30s or 5m, got %q", shorten(node.Value))
	case !inNanoseconds(node.Value):
		s.add(path, node, "expected a duration in whole nanoseconds, got %q", shorten(node.Value))
	default:
		read := durationpb.New(d)
		into.Seconds, into.Nanos = read.GetSeconds(), read.GetNanos()
		return true
	}
	return false
}

// fraction is a number with digits behind the point in a duration, with its unit.
var fraction = regexp.MustCompile(`\.(\d+)(h|ms|m|s|us|µs|μs|ns)`)

// inNanoseconds reports whether a duration is a whole number of nanoseconds: time.ParseDuration cuts the rest off.
func inNanoseconds(text string) bool {
	for _, part := range fraction.FindAllStringSubmatch(text, -1) {
		unit, err := time.ParseDuration("1" + part[2])
		if err != nil {
			return false
		}
		n, ok := new(big.Rat).SetString("0." + part[1])
		if !ok || !n.Mul(n, new(big.Rat).SetInt64(int64(unit))).IsInt() {
			return false
		}
	}
	return true
}

// maxExact is the largest whole number that all JSON readers represent exactly.
const maxExact = 1 << 53

// jsonScalar reads a scalar of a JSON object. It refuses what looks like a number or a bool, and would be sent as text.
func (s *shape) jsonScalar(path string, node *yaml.Node) *structpb.Value {
	switch node.Tag {
	case "!!null":
		return structpb.NewNullValue()
	case "!!bool":
		if node.Value != "true" && node.Value != "false" {
			s.add(path, node, "must be true or false in lower case, or text in quotes")
		}
		return structpb.NewBoolValue(node.Value == "true")
	case "!!int":
		v, err := strconv.ParseInt(node.Value, 10, 64)
		if err != nil || v > maxExact || v < -maxExact {
			s.add(path, node, "is not a decimal number that JSON can hold exactly: put it in quotes to send it as text")
		}
		return structpb.NewNumberValue(float64(v))
	case "!!float":
		v, err := strconv.ParseFloat(node.Value, 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			s.add(path, node, "is not a number in JSON: put it in quotes to send it as text")
		}
		return structpb.NewNumberValue(v)
	}
	return structpb.NewStringValue(node.Value)
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

// quote returns a value for a message, or "" if it must not be repeated: only numbers and durations are, because a text
// may be a secret in the wrong place.
func quote(node *yaml.Node) string {
	if kindWord(node) == "a number" || durationText.MatchString(node.Value) {
		return shorten(node.Value)
	}
	return ""
}

var durationText = regexp.MustCompile(`^[-+]?[0-9.]+(ns|us|µs|μs|ms|s|m|h)[0-9.hmsuµμn]*$`)
