package thresholds

import (
	"fmt"
	"math"
	"strconv"
)

// evaluation is what a condition is evaluated on.
type evaluation struct {
	record *record
	// base returns the value of the word "baseline", or why it is not known.
	base func() (value, string)
}

// node is a part of a condition: an operation on two others, or a value.
type node struct {
	kind        rune // + - * or / for an operation, or one of the kinds below
	left, right *node
	number      float64
	text        string // of a word, or the name of a field
	quoted      bool   // of a word
	field       field
	column      int
}

// The kinds of values.
const (
	aNumber rune = iota
	// aWord is a name that is not a field, or a text in quotes: after the check of types it is a text.
	aWord
	aField
	// aBaseline is the left side of the condition, in the record of the baseline. It is never on the left side itself.
	aBaseline
)

// node returns what a name stands for.
func (n *names) node(name string, column int) *node {
	if name == "baseline" {
		return &node{kind: aBaseline}
	}
	if f, found := n.find(name); found {
		return &node{kind: aField, field: f, text: name, column: column}
	}
	return &node{kind: aWord, text: name, column: column}
}

// any reports whether the node or one below is as wanted.
func (n *node) any(is func(*node) bool) bool {
	return is(n) || n.left != nil && (n.left.any(is) || n.right.any(is))
}

func (n *node) usesBaseline() bool { return n.any(func(n *node) bool { return n.kind == aBaseline }) }

// value returns the value, or why it is not known.
func (n *node) value(e evaluation) (value, string) {
	switch n.kind {
	case aNumber, aWord:
		return value{number: n.number, text: n.text}, ""
	case aBaseline:
		return e.base()
	case aField:
		v, known := n.field.read(e.record)
		if !known {
			return value{}, n.text + " is not known"
		}
		return v, ""
	}
	left, why := n.left.value(e)
	if why != "" {
		return value{}, why
	}
	right, why := n.right.value(e)
	if why != "" {
		return value{}, why
	}
	a, b := left.number, right.number
	switch n.kind {
	case '+':
		a += b
	case '-':
		a -= b
	case '*':
		a *= b
	default:
		a /= b
	}
	if math.IsNaN(a) || math.IsInf(a, 0) {
		return value{}, fmt.Sprintf("%s %c %s is not a number", digits(left.number), n.kind, digits(b))
	}
	return value{number: a}, ""
}

// digits formats a number with six significant digits, or all digits before the point if there are more.
func digits(v float64) string {
	if math.Abs(v) >= 1e5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
